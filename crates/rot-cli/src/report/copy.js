// Copies the command beside a button.
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      // Without access to the clipboard, the command is selected for the reader to copy.
      getSelection().selectAllChildren(code);
      button.textContent = "selected";
    }
  });
}
