# Everything a fresh machine with Rust and Python needs: make demo, make test.
.PHONY: demo test test-rust test-python test-browser test-cuda bench bench-learning bench-python bench-capacity bench-cuda \
	lint lint-rust lint-python docs docs-rust site gallery wheel package

VENV := .venv
PYTHON := $(VENV)/bin/python

demo:
	cargo run --release --locked --quiet --package rot-cli -- demo

test: test-rust test-python

# Optimised, with debug assertions and overflow checks on; see [profile.test]. Kernels are compiled by the NVRTC of PyPI.
test-rust: $(VENV)/ready
	NEEDS_NVRTC=1 LD_LIBRARY_PATH="$$(echo $(CURDIR)/$(VENV)/lib/python3*/site-packages/nvidia/cu[0-9]*/lib):$$LD_LIBRARY_PATH" \
		cargo test --workspace --locked
	for example in distance pairwise loss train; do target/debug/examples/$$example > /dev/null || exit 1; done

# Every crate as it would be published, built from its packaged files alone.
package:
	cargo package --workspace --exclude robust-ot-py --exclude rot-bench --locked --allow-dirty

# The wheel in an environment of its own. Tests of torch run where it is importable: $(VENV)/bin/pip install torch
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

# Pages of rot report in Chromium; needs node, npm and Chromium.
test-browser:
	cargo build --release --locked --package rot-cli
	tools/browser/run release

# What runs on a card; each test says that it is skipped where there is none.
test-cuda: wheel
	cargo test --release --locked --package robust-ot-cuda -- --nocapture
	$(PYTHON) -m pytest python/tests/test_cuda.py

# Figures of the card that is there, for benchmarks/RESULTS.md.
bench-cuda:
	cargo bench --locked --package robust-ot-cuda

# Against POT, OTT-JAX and numpy, in an environment of its own; writes benchmarks/RESULTS.md.
bench:
	python3 benchmarks/peers.py

# Seconds an epoch of rot train, and how they grow; writes benchmarks/LEARNING.md.
bench-learning:
	python3 benchmarks/learning.py

# The Python package against POT; writes the last section of benchmarks/RESULTS.md.
bench-python: wheel
	$(PYTHON) benchmarks/python.py

# What a pair of documents costs, and a cluster of many; writes docs/capacity.md.
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

# Its formulas are set by KaTeX in the browser; the site needs nothing from elsewhere.
docs-rust:
	RUSTDOCFLAGS="-D warnings --html-in-header $(CURDIR)/crates/robust-ot/katex.html" cargo doc --workspace --no-deps --locked

site: wheel
	$(PYTHON) -m sphinx --fail-on-warning --keep-going -q docs site

# The pictures of docs/gallery, drawn anew; fine_tune needs torch.
gallery: wheel
	for script in python/gallery/*.py; do MPLBACKEND=Agg $(PYTHON) $$script docs/gallery/$$(basename $$script .py).png || exit 1; done
