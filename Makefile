# On a fresh machine with Rust and Python: make demo, make test.
.PHONY: demo test test-rust test-python test-browser test-cuda bench bench-learning bench-python bench-capacity bench-cuda \
	lint lint-rust lint-python docs docs-rust site gallery wheel package

VENV := .venv
PYTHON := $(VENV)/bin/python

demo:
	cargo run --release --locked --quiet --package rot-cli -- demo

test: test-rust test-python

# Optimized, with debug assertions and overflow checks; see [profile.test]. NVRTC from PyPI compiles the CUDA kernels.
test-rust: $(VENV)/ready
	NEEDS_NVRTC=1 LD_LIBRARY_PATH="$$(echo $(CURDIR)/$(VENV)/lib/python3*/site-packages/nvidia/cu[0-9]*/lib):$$LD_LIBRARY_PATH" \
		cargo test --workspace --locked
	for example in distance pairwise loss train; do target/debug/examples/$$example > /dev/null || exit 1; done

# Packages every crate and builds it from the packaged files alone.
package:
	cargo package --workspace --exclude robust-ot-py --exclude rot-bench --locked --allow-dirty

# Tests the wheel in its own environment. The torch tests run only if torch is installed: $(VENV)/bin/pip install torch
test-python: wheel
	$(PYTHON) -m mypy.stubtest robust_ot._core
	$(PYTHON) -m pytest

$(VENV)/ready: python/requirements.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --requirement python/requirements.txt
	touch $@

wheel: $(VENV)/ready
	$(VENV)/bin/maturin build --release --locked --interpreter $(PYTHON) --out target/wheels
	$(PYTHON) -m pip install --quiet --force-reinstall --no-deps target/wheels/robust_ot-*.whl

# Opens pages of rot report in Chromium; needs node, npm and Chromium.
test-browser:
	cargo build --release --locked --package rot-cli
	tools/browser/run release

# The GPU tests; without a GPU, each test reports that it is skipped.
test-cuda: wheel
	cargo test --release --locked --package robust-ot-cuda -- --nocapture
	$(PYTHON) -m pytest python/tests/test_cuda.py

# Benchmarks the available GPU, for benchmarks/RESULTS.md.
bench-cuda:
	cargo bench --locked --package robust-ot-cuda

# Compares with POT, OTT-JAX and numpy in a separate environment; writes benchmarks/RESULTS.md.
bench:
	python3 benchmarks/peers.py

# Seconds per epoch of rot train and how they scale; writes benchmarks/LEARNING.md.
bench-learning:
	python3 benchmarks/learning.py

# Compares the Python package with POT; writes the last section of benchmarks/RESULTS.md.
bench-python: wheel
	$(PYTHON) benchmarks/python.py

# The cost of one document pair and of many on a cluster; writes docs/capacity.md.
bench-capacity: wheel
	$(PYTHON) benchmarks/capacity.py

lint: lint-rust lint-python

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

lint-python: $(VENV)/ready
	$(VENV)/bin/ruff check python docs benchmarks/python.py benchmarks/capacity.py
	$(VENV)/bin/ruff format --check python docs benchmarks/python.py benchmarks/capacity.py
	$(VENV)/bin/mypy

docs: site docs-rust

# KaTeX renders the formulas of these pages in the browser; the site loads nothing from elsewhere.
docs-rust:
	RUSTDOCFLAGS="-D warnings --html-in-header $(CURDIR)/crates/robust-ot/katex.html" cargo doc --workspace --no-deps --locked

site: wheel
	$(PYTHON) -m sphinx --fail-on-warning --keep-going -q docs site

# Redraws the pictures of docs/gallery; fine_tune needs torch.
gallery: wheel
	for script in python/gallery/*.py; do MPLBACKEND=Agg $(PYTHON) $$script docs/gallery/$$(basename $$script .py).png || exit 1; done
