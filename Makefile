# On a fresh machine with Rust and Python: make demo, make test.
.PHONY: api bench bench-capacity bench-cuda bench-learning bench-python check-targets compare-learning demo docs docs-rust durability fuzz gallery install \
	lint lint-python lint-rust man package release site soak test test-browser test-cuda test-python test-rust wheel

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

# Installs the command with its pages for man and its completions: make install PREFIX=/usr/local
PREFIX := $(HOME)/.local
install:
	cargo install --locked --path crates/rot-cli --root $(PREFIX)
	$(PREFIX)/bin/rot man $(PREFIX)/share/man/man1
	mkdir -p $(PREFIX)/share/bash-completion/completions $(PREFIX)/share/zsh/site-functions $(PREFIX)/share/fish/vendor_completions.d
	$(PREFIX)/bin/rot completions bash > $(PREFIX)/share/bash-completion/completions/rot
	$(PREFIX)/bin/rot completions zsh > $(PREFIX)/share/zsh/site-functions/_rot
	$(PREFIX)/bin/rot completions fish > $(PREFIX)/share/fish/vendor_completions.d/rot.fish

# Writes the pages for man to target/man, from where the source distribution takes them.
man:
	cargo run --release --locked --quiet --package rot-cli -- man target/man

# Finds what is wrong: random problems solved in several ways, known optima in exact arithmetic, slopes of the loss and small
# entropies, for SOAK_SECONDS per test from the problem SOAK_SEED; then damaged files. test-rust tries the first problems.
SOAK_SECONDS ?= 600
SOAK_SEED ?= 0
soak:
	SOAK_SECONDS=$(SOAK_SECONDS) SOAK_SEED=$(SOAK_SEED) cargo test --locked --package robust-ot \
		--test soundness --test forced --test loss --test small_entropy -- --nocapture --test-threads=1 \
		brackets gradients_are no_bracket
	$(MAKE) fuzz FUZZ_SECONDS=$(SOAK_SECONDS) FUZZ_SEED=$(SOAK_SEED)

# Kills rot train and cuts its power at random writes, resumes it, and compares the model with that of a run left alone.
durability:
	cargo build --release --locked --package rot-cli
	python3 tools/durability/run.py target/release/rot --kills 500 --cuts 500

# Packages every crate and builds it from the packaged files alone.
package:
	cargo package --workspace --exclude robust-ot-py --exclude rot-bench --exclude rot-fuzz --locked --allow-dirty

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
	$(PYTHON) -m pytest python/tests/test_cuda.py python/tests/test_torch_distance.py

# Benchmarks the available GPU, for benchmarks/RESULTS.md.
bench-cuda: wheel
	cargo bench --locked --package robust-ot-cuda
	$(PYTHON) benchmarks/torch_loss.py
	$(PYTHON) benchmarks/torch_distance.py

# Compares with POT, OTT-JAX and numpy in a separate environment; writes benchmarks/RESULTS.md.
bench:
	python3 benchmarks/peers.py

# Seconds per epoch of rot train and how they scale; writes benchmarks/LEARNING.md.
bench-learning:
	python3 benchmarks/learning.py

# Scores rot train and tuned baselines on real data, make compare-learning DATA=FOLDER; continues where out/learning.jsonl ends.
compare-learning: $(VENV)/ready
	cargo build --release --locked --package rot-cli
	$(PYTHON) experiments/learning.py $(DATA) --rot target/release/rot

# Compares the Python package with POT; writes the last section of benchmarks/RESULTS.md.
bench-python: wheel
	$(PYTHON) benchmarks/python.py

# The cost of one document pair and of many on a cluster; writes docs/capacity.md.
bench-capacity: wheel
	$(PYTHON) benchmarks/capacity.py

# Feeds damaged files to every reader and loader, FUZZ_SECONDS seconds each with the seed FUZZ_SEED, in 2 GB of addresses; an input
# that breaks one is kept in target/fuzz. Another seed damages other places. The profile of the tests checks arithmetic.
FUZZ_SECONDS := 5
FUZZ_SEED := 0
fuzz:
	cargo build --profile test --locked --package rot-fuzz
	ulimit -v 2000000 && target/debug/rot-fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

lint: lint-rust lint-python

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

lint-python: $(VENV)/ready
	$(VENV)/bin/ruff check python docs benchmarks/python.py benchmarks/capacity.py benchmarks/torch_loss.py benchmarks/torch_distance.py experiments/learning*.py experiments/comparing.py experiments/tuning.py tools/durability
	$(VENV)/bin/ruff format --check python docs benchmarks/python.py benchmarks/capacity.py benchmarks/torch_loss.py benchmarks/torch_distance.py experiments/learning*.py experiments/comparing.py experiments/tuning.py tools/durability
	$(VENV)/bin/mypy

docs: site docs-rust

# KaTeX renders the formulas of these pages in the browser; the site loads nothing from elsewhere.
docs-rust:
	RUSTDOCFLAGS="-D warnings --html-in-header $(CURDIR)/crates/robust-ot/katex.html" cargo doc --workspace --no-deps --locked

site: wheel
	$(PYTHON) -m sphinx --fail-on-warning --keep-going -q docs site

# Redraws the pictures of docs/gallery; fine_tune needs torch.
gallery: wheel
	for script in python/gallery/*.py; do MPLBACKEND=Agg MATPLOTLIBRC=docs/matplotlibrc $(PYTHON) $$script docs/gallery/$$(basename $$script .py).png || exit 1; done

# Records the public interface of the crates in crates/*/API.txt; CI compares it.
api: docs-rust
	python3 tools/public_api.py

# zig links for other systems and old versions of glibc.
ZIG := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
$(VENV)/zig: $(VENV)/ready
	$(PYTHON) -m pip install --quiet ziglang cargo-zigbuild
	touch $@

# Type-checks the crates for other systems; needs rustup.
OTHER_TARGETS := x86_64-pc-windows-gnu aarch64-apple-darwin
check-targets: $(VENV)/zig
	rustup target add $(OTHER_TARGETS)
	for target in $(OTHER_TARGETS); do \
		$(ZIG) cargo-zigbuild check --locked --workspace --exclude robust-ot-py --target $$target || exit 1; \
	done

# Everything that is published, with checksums, in target/dist: crates, source distribution, and wheels and commands for Linux
# with glibc 2.28 or later. Needs rustup.
LINUX_TARGETS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
release: package check-targets man
	rustup target add $(LINUX_TARGETS)
	rm -rf target/dist && mkdir -p target/dist
	cp target/package/*.crate target/dist
	$(VENV)/bin/maturin sdist --out target/dist
	for target in $(LINUX_TARGETS); do \
		$(ZIG) $(VENV)/bin/maturin build --release --locked --zig --compatibility manylinux_2_28 \
			--interpreter $(PYTHON) --target $$target --out target/dist && \
		$(ZIG) cargo-zigbuild build --release --locked --package rot-cli --target $$target.2.28 && \
		cp target/$$target/release/rot target/dist/rot-$$target || exit 1; \
	done
	cd target/dist && sha256sum * > ../SHA256SUMS && mv ../SHA256SUMS . && cat SHA256SUMS
