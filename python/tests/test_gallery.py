"""Every script of the gallery runs and draws."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

GALLERY = Path(__file__).parent.parent / "gallery"
NEEDS = {
    "tag_prediction": ["sklearn"],
    "two_batches": ["sklearn", "pandas"],
    "fine_tune": ["torch"],
    "on_a_cluster": ["torch", "ray.train"],
    "gradient_flow": ["torch"],
    "color_transfer": ["sklearn"],
    "barycenter_of_digits": ["sklearn"],
}


@pytest.mark.parametrize("script", sorted(path.stem for path in GALLERY.glob("*.py")))
def test_a_script_runs_and_draws(script, tmp_path):
    for module in NEEDS.get(script, []):
        pytest.importorskip(module)
    picture = tmp_path / "picture.png"
    command = [sys.executable, GALLERY / f"{script}.py", picture]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "MPLBACKEND": "Agg"})
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("script", sorted(NEEDS))
def test_a_script_says_what_to_install(script):
    (module, *_) = NEEDS[script]
    path = str(GALLERY / f"{script}.py")
    # A module that is None in this table cannot be imported.
    code = f"import runpy, sys; sys.modules[{module!r}] = None; runpy.run_path({path!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{script}.py needs ") and "pip install 'robust-ot[" in line
