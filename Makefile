# Everything a fresh machine with Rust needs: make demo, make test.
.PHONY: demo test test-browser bench bench-learning lint docs

demo:
	cargo run --release --locked --quiet --package rot-cli -- demo

# Optimised, with debug assertions and overflow checks on; see [profile.test].
test:
	cargo test --workspace --locked

# Pages of rot report in Chromium; needs node, npm and Chromium.
test-browser:
	cargo build --release --locked --package rot-cli
	tools/browser/run

# Against POT, OTT-JAX and numpy, in an environment of its own; writes benchmarks/RESULTS.md.
bench:
	python3 benchmarks/peers.py

# Seconds an epoch of rot train, and how they grow; writes benchmarks/LEARNING.md.
bench-learning:
	python3 benchmarks/learning.py

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Formulas are set by KaTeX in the browser.
docs:
	RUSTDOCFLAGS="-D warnings --html-in-header $(CURDIR)/docs/katex.html" cargo doc --workspace --no-deps --locked
