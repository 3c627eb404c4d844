# `make run` and `make test` are all that a newcomer needs; each installs what it uses.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONFIG ?= etc/fusion.yaml

.PHONY: run demo test check suite proofs proofs-full lint types bench chaos chaos-full chaos-bugs soak bench-peers bench-large bench-reliability web-look docs deb release clean install

run: install            ## the daemon in the foreground, on the embedded Redis; commands then need -c etc/fusion.yaml
	$(BIN)/fusiond run -c $(CONFIG)

demo: install           ## a tour of half a minute that ends by itself
	$(BIN)/python -m tests.demo

test: check             ## lint, types, and tests that show each promise of the docs once

check: lint types suite

suite: $(VENV)/.dev     ## the tests alone
	$(BIN)/pytest

proofs: $(VENV)/.dev    ## a part of each proof: storms, seeded bugs, failpoints, fuzzing, built packages; a quarter of an hour
	$(BIN)/pytest -m proof $(PROOFS)

proofs-full: $(VENV)/.dev  ## each proof at full length, for hours; the results go to docs/proofs/full.md
	$(BIN)/python -m tests.proofs $(PROOFS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev     ## our own figures, beside what the machine does at the least
	$(BIN)/python -m benchmarks $(BENCH)

chaos: $(VENV)/.dev     ## kills under load, every job accounted for; `make chaos CHAOS=--help` tells what else there is
	$(BIN)/python -m tests.chaos $(CHAOS)

chaos-full: $(VENV)/.dev  ## 100,000 jobs under 10,000 kills, half an hour on two cores that do nothing else
	$(BIN)/python -m tests.chaos --full $(CHAOS)

chaos-bugs: $(VENV)/.dev  ## the harness can fail: each seeded bug is found
	$(BIN)/python -m tests.chaos --bugs --markdown

soak: $(VENV)/.dev      ## twenty minutes of work under reloads: nothing grows, each job runs once
	$(BIN)/python -m tests.soak

web-look: $(VENV)/.dev  ## every page of the dashboard in a real Chromium: checks, and pictures in look/; those of the docs with PICTURES=docs/pictures
	$(BIN)/pip install --quiet --disable-pip-version-check playwright axe-playwright-python
	$(BIN)/python -m tests.web.look look $(PICTURES)

bench-reliability: $(VENV)/.dev  ## what RQ, Celery and fusiond lose under the same kills
	$(BIN)/python -m benchmarks.reliability

bench-large: $(VENV)/.dev  ## forked jobs of a large application: Django, SQLAlchemy and pandas in an environment of their own
	$(BIN)/python -m benchmarks.large $(BENCH)

bench-peers: $(VENV)/.dev  ## other job runners beside it, in rounds; `make bench-peers BENCH=--help` tells what else there is
	$(BIN)/python -m benchmarks.peers $(BENCH)

docs: $(VENV)/.dev      ## the docs as a site in build/site; a link that leads nowhere is an error
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/site

deb:                    ## a Debian package in dist/, by debhelper, checked by lintian
	packaging/deb

release: $(VENV)/.dev   ## a release of the commit in dist/: wheel, sdist, Debian package (not with DEB=no), image, checksums
	PYTHON="$(CURDIR)/$(BIN)/python" packaging/release

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[embedded,web,top,elasticsearch,otlp,outbox,calendars]'
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --group dev
	$(BIN)/pytest --collect-only -n 0 >/dev/null || true  # byte code, once for all processes of the tests
	touch $@

clean:
	rm -rf $(VENV) .venv-newest build dist .pytest_cache .mypy_cache .ruff_cache
