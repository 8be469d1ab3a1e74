# `make demo` runs the demo, `make check` runs all checks. Both first install what they need (root or sudo).
# Variables: SETUP= (empty) installs no packages of the distribution; ARGS="-k name" goes to pytest or the demo.
# VSCAF_EXPLORE=100: property tests and random histories use new random examples instead of the same ones each time.

SHELL := /bin/sh
.DEFAULT_GOAL := help
BUILD := build
VENV := $(BUILD)/venv
BIN := $(VENV)/bin
SETUP := yes
ARGS :=
ROOT := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=PATH,PIP_CERT)
# sudo leaves out these variables.
FRESH_ROOT = $(ROOT) env $(foreach name,VSCAF_BEFORE VSCAF_MIRROR,$(if $($(name)),$(name)=$($(name)))) tests/in-fresh-root
SAY := printf 'vscaf: %s\n'
STAGE := tests/stage
SOAK := tests/soak-stage
ENV = VSCAF_BUILD=$(CURDIR)/$(BUILD)/meson VSCAF_IMAGE=$(CURDIR)/$(BUILD)/image/current $(if $(QUICK),QUICK=$(QUICK))
# Runs tests side by side, this many at once. The agent's tests mostly wait for an agent or a clock, so many of them keep
# two CPUs busy. Every test has its own directory, names and sockets. AT_ONCE=0: one after the other.
AT_ONCE :=
AGENT_TESTS = -n $(or $(AT_ONCE),8) --dist worksteal
UNIT_TESTS = -n $(or $(AT_ONCE),4) --dist worksteal
GUEST_TESTS = -n $(or $(AT_ONCE),3) --dist worksteal
# Random OpenMP programs, each compared with its plain run while its team changes.
GENERATED = $(BIN)/python guest-agent/tests/generated/run.py --build $(BUILD)/meson
# Leaves the tests that are marked `long` to `make soak`. ARGS="-m ''" runs all, ARGS="-m long" those alone.
CHECKED = -m 'not long'
SLOWEST = --durations=15 --durations-min=2

# Builds and runs the fuzz targets. $(1): options of run.py
define fuzz-agent
@tests/build-c $(BUILD)/fuzz clang fuzz
@$(STAGE) 'fuzzing' $(BIN)/python guest-agent/fuzz/run.py --build $(BUILD)/fuzz $(1)
endef

.PHONY: help setup venv programs image lint quick soak test-c test-unit test-guest test-systemd test-counters fuzz \
    packages check-packages check-wheels check-cockpit check-ansible check-ansible-roots \
    check-ansible-site check-molecule check-tutorial ansible-venv docs chaos check demo demo-standalone \
    bench bench-agent bench-daemon bench-guest-start bench-libgomp bench-operator bench-pairs bench-parking bench-policies \
    bench-scaled bench-workloads screenshots clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## install missing packages of the distribution
	@$(if $(SETUP),tests/setup-machine,$(SAY) 'distribution packages: left alone')

venv: setup ## make build/venv with all Python packages
	@tests/make-venv $(VENV)

programs: setup ## build the C parts with gcc
	@tests/build-c $(BUILD)/meson gcc plain

image: programs venv ## build the guest image
	@$(BIN)/python images/build.py --meson $(BUILD)/meson --output $(BUILD)/image
	@mkdir -p $(BUILD)/bench  # else a bench as root makes it, and those without root cannot write there

lint: venv ## check format, lints, imports and types
	@$(STAGE) 'formats, lints' sh -c '$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .'
	@$(STAGE) imports env PYTHONPATH=tests/bench $(BIN)/lint-imports --no-logo --no-cache
	@$(STAGE) types $(BIN)/mypy --no-error-summary \
	    host-daemon/vscaf policies/vscaf_policies tests/lab/vscaf_lab tests/bench/vscaf_bench docs/site

quick: lint ## the first checks after a change: lint, unit tests, one C build with its tests
	@$(STAGE) 'C tests with gcc' tests/build-c $(BUILD)/meson gcc plain --quick-test
	@$(STAGE) 'unit tests' env $(ENV) $(BIN)/python -m pytest -q $(UNIT_TESTS) -m 'not slow' tests/unit $(ARGS)

test-c: setup venv ## build the C parts without warnings (gcc, clang, sanitizers, aarch64) and run their tests
	@$(STAGE) 'gcc' tests/build-c $(BUILD)/meson gcc plain --test
	@$(STAGE) 'clang' tests/build-c $(BUILD)/clang clang plain --quick-test
	@$(STAGE) 'gcc with address and undefined sanitizers' tests/build-c $(BUILD)/sanitized gcc sanitized --test
	@$(STAGE) 'gcc with the thread sanitizer' tests/build-c $(BUILD)/threads gcc threads --test
	@$(STAGE) 'the shim without counters' tests/build-c $(BUILD)/no-counters gcc no-counters --quick-test
	@$(STAGE) 'aarch64' tests/build-c $(BUILD)/aarch64 aarch64-linux-gnu-gcc aarch64 --test
	@$(STAGE) 'agent tests, sanitized' env VSCAF_BUILD=$(CURDIR)/$(BUILD)/sanitized \
	    $(BIN)/python -m pytest -q $(AGENT_TESTS) $(CHECKED) $(SLOWEST) --ignore guest-agent/tests/generated guest-agent/tests $(ARGS)
	$(call fuzz-agent,--seconds 30)
	@$(STAGE) 'shim test with a wheel' env $(ENV) $(BIN)/python -m pytest -q guest-libgomp/tests $(ARGS)
	@$(STAGE) 'OpenMP programs by hand' env $(ENV) \
	    $(BIN)/python -m pytest -q $(UNIT_TESTS) $(CHECKED) $(SLOWEST) guest-agent/tests/generated $(ARGS)
	@$(STAGE) 'random OpenMP programs' $(GENERATED) --programs 60

test-unit: programs venv ## run the tests without guests
	@$(STAGE) 'unit, property and driver tests' \
	    env $(ENV) $(BIN)/python -m pytest -q $(UNIT_TESTS) $(CHECKED) $(SLOWEST) tests/unit tests/driver $(ARGS)

test-guest: image ## run the tests with real guests (root)
	@$(STAGE) 'tests with real guests' $(ROOT) env $(ENV) \
	    $(if $(VSCAF_EXPLORE),VSCAF_EXPLORE=$(VSCAF_EXPLORE)) $(BIN)/python -m pytest -q $(GUEST_TESTS) $(CHECKED) $(SLOWEST) tests/guest $(ARGS)

chaos: image ## random failures in real guests for five minutes (root); ARGS="--seconds 300 --seed N"; logs: build/chaos
	@$(ROOT) env $(ENV) $(BIN)/python -m vscaf_lab.chaos_run --output $(BUILD)/chaos $(ARGS)

fuzz: setup venv ## fuzz the agent for a minute; ARGS="--seconds 3600" for longer: guest-agent/fuzz/README.md
	$(call fuzz-agent,$(ARGS))

test-systemd: image ## test the services and Cockpit's login in guests with systemd (root; needs debootstrap, its mirror, PyPI; not in check)
	@$(SAY) 'tests with systemd in a guest ...'
	@command -v debootstrap >/dev/null || { $(SAY) 'debootstrap is not installed: apt-get install debootstrap'; exit 1; }
	@$(ROOT) env $(ENV) $(BIN)/python -m pytest tests/systemd $(ARGS)

test-counters: setup venv ## test the metric ipc on emulated counters (Debian; needs its mirror; not in check)
	@$(if $(SETUP),tests/setup-machine qemu-system-arm,:)
	@tests/build-c $(BUILD)/aarch64 aarch64-linux-gnu-gcc aarch64
	@$(STAGE) 'counters of an emulated aarch64' $(BIN)/python -m pytest -q tests/pmu $(ARGS)

packages: ## build the Debian packages in build/packages (needs their build dependencies: docs/packages.md)
	@$(STAGE) 'Debian packages' tests/packages/build $(BUILD)/packages

check-packages: ## build, install, upgrade, run and purge the packages in fresh Debians 12 and 13 (root; not in check)
	@$(STAGE) 'packages on Debian 12' $(FRESH_ROOT) bookworm tests/packages/check
	@$(STAGE) 'packages on Debian 13' $(FRESH_ROOT) trixie tests/packages/check

check-wheels: setup ## build the wheels in build/wheels, install them in a new environment, run them (PyPI; not in check)
	@$(STAGE) wheels tests/packages/check-wheels $(BUILD)/wheels

check-cockpit: venv ## test the Cockpit page in Chromium with a real cockpit-ws; pictures: build/screenshots; not in check
	@[ -x /usr/lib/cockpit/cockpit-ws ] && command -v chromium && command -v node || { $(SAY) 'not all is installed:' \
	    'apt-get install --no-install-recommends cockpit-ws cockpit-bridge chromium nodejs (Cockpit then listens on port 9090)'; exit 1; } >&2
	@$(STAGE) 'the Cockpit page' $(ROOT) $(BIN)/python -m pytest -q $(SLOWEST) tests/cockpit $(ARGS)

ansible-venv: setup
	@tests/make-extra-venv Ansible $(BUILD)/ansible-venv -r tests/ansible/requirements.txt -e policies -e .

docs: setup ## build the documentation in build/docs; open build/docs/docs/index.html
	@tests/make-extra-venv 'the documentation' $(BUILD)/docs-venv -e policies -e '.[docs]'
	@$(STAGE) documentation env NO_MKDOCS_2_WARNING=1 $(BUILD)/docs-venv/bin/mkdocs build --strict

check-ansible: ansible-venv ## check the Ansible collection: ansible-lint, ansible-test sanity, its tests; not in check
	@$(STAGE) 'ansible-lint and ansible-test sanity' tests/ansible/lint $(BUILD)/ansible-venv
	@$(STAGE) 'tests of the collection' $(BUILD)/ansible-venv/bin/python -m pytest -q $(SLOWEST) tests/ansible $(ARGS)

check-ansible-roots: ansible-venv ## try roles in minimal Debian 12 and 13 (root; needs debootstrap, its mirror and PyPI; not in check)
	@command -v debootstrap >/dev/null || { $(SAY) 'debootstrap is not installed: apt-get install debootstrap'; exit 1; }
	@$(STAGE) 'roles in minimal systems' $(ROOT) env VSCAF_ANSIBLE_ROOTS=$(CURDIR)/$(BUILD)/ansible-roots \
	    unshare --mount --propagation private \
	    $(BUILD)/ansible-venv/bin/python -m pytest -q $(SLOWEST) tests/ansible/test_roots.py $(ARGS)

check-ansible-site: image ansible-venv ## play the playbooks with two Debian guests (root; as above; not in check)
	@command -v debootstrap >/dev/null || { $(SAY) 'debootstrap is not installed: apt-get install debootstrap'; exit 1; }
	@$(STAGE) 'playbooks with two guests' $(ROOT) env $(ENV) VSCAF_ANSIBLE_SITE=yes unshare --mount --propagation private \
	    $(BUILD)/ansible-venv/bin/python -m pytest -q $(SLOWEST) tests/ansible/test_site.py tests/ansible/test_test_host.py $(ARGS)

check-tutorial: image ansible-venv ## follow the tutorial of the packages, with two Debian guests (root; as above; not in check)
	@$(STAGE) 'the tutorial of the packages' $(ROOT) env $(ENV) VSCAF_TUTORIAL=yes unshare --mount --propagation private \
	    $(BUILD)/ansible-venv/bin/python -m pytest -q -s tests/ansible/test_tutorial.py $(ARGS)

check-molecule: image ansible-venv ## the same as a scenario of molecule, without comparisons (root; as above; not in check)
	@$(STAGE) molecule $(ROOT) env $(ENV) unshare --mount --propagation private tests/ansible/molecule $(BUILD)/ansible-venv

check: lint test-c test-unit test-guest ## run all checks, except the tests that take long (make soak)
	@$(SAY) 'make check: all passed'

soak: image ## run all that takes hours (root); if it was interrupted, it goes on where it was on this commit
	@$(SOAK) fuzzing make fuzz ARGS='--seconds 1800'
	@$(SOAK) fuzzing-inspect make fuzz ARGS='--target inspect --seconds 7200 --libfuzzer=-runs=1000000'
	@$(SOAK) 'long C tests' tests/build-c $(BUILD)/meson gcc plain --long-test
	@$(SOAK) 'C tests with clang' tests/build-c $(BUILD)/clang clang plain --test
	@$(SOAK) 'long C tests with clang' tests/build-c $(BUILD)/clang clang plain --long-test
	@$(SOAK) 'all agent tests' env $(ENV) VSCAF_EXPLORE=3000 $(BIN)/python -m pytest -q $(AGENT_TESTS) guest-agent/tests
	@$(SOAK) 'random OpenMP programs' $(GENERATED) --programs 20000 \
	    --progress $(BUILD)/soak/$$(git describe --always --dirty)/generated.jsonl
	@$(SOAK) 'random histories' make test-unit VSCAF_EXPLORE=1000 ARGS="-m ''"
	@$(SOAK) 'long tests with guests' make test-guest ARGS='-m long'
	@$(SOAK) 'replay of guests' make test-guest VSCAF_EXPLORE=3600 ARGS='-k tools_agree'
	@$(SOAK) chaos make chaos ARGS='--seconds 1200'
	@$(SOAK) systemd make test-systemd
	@$(SOAK) counters make test-counters
	@$(SOAK) packages make check-packages
	@$(SOAK) wheels make check-wheels
	@$(SOAK) documentation make docs
	@$(SOAK) 'Cockpit page' make check-cockpit
	@$(SOAK) 'Ansible collection' make check-ansible
	@$(SOAK) 'Ansible roles in minimal systems' make check-ansible-roots
	@$(SOAK) 'Ansible playbooks with guests' make check-ansible-site
	@$(SOAK) molecule make check-molecule
	@$(SOAK) 'the tutorial' make check-tutorial
	@$(SOAK) 'Debian 13' $(FRESH_ROOT) trixie make check
	@$(SAY) "make soak: all passed on $$(git describe --always --dirty)"

demo: image ## let two guests share two CPUs: a table, build/demo/report.html and report.json
	@$(ROOT) env $(ENV) $(BIN)/python -m vscaf_lab.demo --output $(BUILD)/demo $(ARGS)

demo-standalone: programs venv ## let two programs share two CPUs of this machine, without guests; ARGS=--quick
	@$(ENV) $(BIN)/python -m vscaf_lab.demo --no-vm --output $(BUILD)/demo-standalone $(ARGS)

bench: bench-libgomp bench-guest-start bench-parking bench-agent bench-daemon bench-operator bench-policies bench-pairs ## run all benchmarks

bench-agent: programs venv ## measure the cost and the speed of the guest agent; ARGS=--quick
	@PYTHONPATH=tests/bench $(BIN)/python -m vscaf_bench.agent --meson $(BUILD)/meson --output $(BUILD)/bench $(ARGS)

bench-daemon: image ## measure how fast the daemon decides and separates real guests, and its cost (root); ARGS=--quick
	@$(ROOT) env PYTHONPATH=tests/bench $(ENV) $(BIN)/python -m vscaf_bench.daemon --output $(BUILD)/bench $(ARGS)

bench-libgomp: programs venv ## measure the cost of the shim and how well it learns; ARGS=--quick
	@PYTHONPATH=tests/bench $(BIN)/python -m vscaf_bench.libgomp --meson $(BUILD)/meson --output $(BUILD)/bench $(ARGS)

bench-guest-start: image ## measure what vscaf adds to runs of a short program in a real guest (root); ARGS=--quick
	@$(ROOT) env PYTHONPATH=tests/bench $(ENV) $(BIN)/python -m vscaf_bench.guest_start --output $(BUILD)/bench $(ARGS)

bench-pairs: image ## measure pairs of NPB programs in guests, and without, under vscaf and four baselines (root); ARGS=--quick
	@$(ROOT) env PYTHONPATH=tests/bench $(ENV) $(BIN)/python -m vscaf_bench.pairs --output $(BUILD)/bench $(ARGS)

bench-operator: venv ## measure vscaf top and the Cockpit page with 1,000 domains: first paint, CPU time; ARGS=--quick
	@PYTHONPATH=tests/bench:tests/cockpit $(BIN)/python -m vscaf_bench.operator --output $(BUILD)/bench $(ARGS)

bench-parking: image ## measure the cost of parking and offlining vCPUs in a real guest (root); ARGS=--quick
	@$(ROOT) env PYTHONPATH=tests/bench $(ENV) $(BIN)/python -m vscaf_bench.parking --output $(BUILD)/bench $(ARGS)

bench-policies: venv ## measure in the simulator how good the policies are, and the cost of a decision; ARGS=--quick
	@PYTHONPATH=tests/bench $(BIN)/python -m vscaf_bench.policies --output $(BUILD)/bench $(ARGS)

bench-scaled: image ## measure unequal splits in a guest of six slow CPUs, against the best split by hand (root); ARGS=--quick
	@$(ROOT) env PYTHONPATH=tests/bench $(ENV) $(BIN)/python -m vscaf_bench.scaled --output $(BUILD)/bench $(ARGS)

bench-workloads: programs venv ## the shipped workloads: their parallel regions, their speedup, and their speed while contained; ARGS=--quick
	@PYTHONPATH=tests/bench $(ENV) $(BIN)/python -m vscaf_bench.workloads --output $(BUILD)/bench $(ARGS)
	@PYTHONPATH=tests/bench $(ENV) $(BIN)/python -m vscaf_bench.contained --output $(BUILD)/bench $(ARGS)

screenshots: venv ## make the pictures of vscaf top, vscaf plot and (if installed) Cockpit in docs/pictures, and in build/screenshots
	@PYTHONPATH=tests/unit/helpers $(BIN)/python tests/screenshots.py --output docs/pictures --look $(BUILD)/screenshots
	@if [ -x /usr/lib/cockpit/cockpit-ws ]; then $(MAKE) --no-print-directory check-cockpit ARGS='-k fits_and_follows' && \
	    cp $(BUILD)/screenshots/cockpit-wide-light.png docs/pictures/cockpit.png; \
	else $(SAY) 'Cockpit is not installed (make check-cockpit says how): docs/pictures/cockpit.png is as before'; fi

clean: ## remove the build directory
	rm -rf $(BUILD)
