# Everything is set up on the first use, on a machine with git, make, python3 and root (or sudo). See contributing/development.md.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# make train NODES=4 ARGS="-e rerun=true": NODES sizes the job, ARGS goes to ansible-playbook.
# For the test targets ARGS goes to pytest: make unit ARGS="-k journal".
NODES ?= 4
ARGS ?=
export NODES

.PHONY: help train lab lab-stop test test-all test-core lint unit mutants runtime sanity cluster-test molecule reference new docs build release clean

help: ## Show this text
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target text; \
	do printf '  make %-13s %s\n' "$$target" "$$text"; done

train: ## Train the example on NODES nodes (default 4); boots the lab cluster unless a cluster answers
	@scripts/train $(ARGS)

lab: ## Boot the lab cluster (real Slurm, 8 nodes on this machine)
	@scripts/lab present $(ARGS)

lab-stop: ## Stop the lab cluster and remove what it left
	@scripts/lab absent $(ARGS)

test: ## Run the tests that a landing must pass; sets up all that they need
	@scripts/test $(ARGS)

test-all: ## Run every test, and those that only the lab's own developers and rare Pythons need
	@scripts/test --all $(ARGS)

test-core: ## Run every test with another ansible-core, in an environment of its own: CORE=2.18
	@RANKZERO_ANSIBLE_CORE=$(or $(CORE),$(error name one, for example CORE=2.18)) scripts/test $(ARGS)

# One worker a core; with ARGS in one process, where output and debuggers are easier to follow.
unit: ## Run the fast tests: the pure core, golden files, repository rules
	@scripts/test $(if $(ARGS),,--numprocesses auto --dist loadfile --no-loadscope-reorder) \
	    --ignore tests/unit/runtime --ignore tests/unit/pyenv --ignore tests/unit/command/sbatch tests/unit tests/golden \
	    tests/quality/test_repository.py tests/quality/test_imports.py tests/quality/test_documentation.py \
	    tests/quality/test_tooling.py $(ARGS)

runtime: ## Run the tests of what runs in a job, of environments, and of scripts that become jobs: real scripts, no Slurm
	@scripts/test $(if $(ARGS),,--numprocesses auto --dist loadfile) tests/unit/runtime tests/unit/pyenv tests/unit/command/sbatch $(ARGS)

mutants: ## Change one rule at a time and name the changes that no unit test notices: ARGS="--seed 7 plan slurm"
	@scripts/bootstrap test
	@.venv/bin/python scripts/mutants.py $(ARGS)

lint: ## Run the linters and type checker
	@scripts/test tests/quality/test_lint.py $(ARGS)

sanity: ## Run ansible-test sanity
	@scripts/test tests/quality/test_sanity.py $(ARGS)

cluster-test: ## Run the tests that need a lab cluster (each boots its own)
	@scripts/test tests/cluster $(ARGS)

molecule: ## Run the molecule scenarios
	@scripts/test tests/quality/test_molecule.py $(ARGS)

reference: ## Write what is generated from the job spec's field table and from the code's imports
	@scripts/bootstrap run
	@PYTHONPATH=.cache/collections .venv/bin/python scripts/generate_reference.py

new: ## Write the file, rows and test lines of an addition: KIND=launcher|container|fabric|family|format|tracker|option|input NAME=...
	@scripts/bootstrap test
	@.venv/bin/python scripts/new.py $(KIND) $(NAME)

docs: ## Build the documentation site in build/docs
	@scripts/bootstrap test
	@scripts/docs

build: ## Build what is published in build/: the collection's tarball and the wheel
	@scripts/bootstrap run
	@scripts/build

release: ## Make a release: VERSION=1.2.3, and REPOSITORY=https://HOST/OWNER/NAME until galaxy.yml has it
	@scripts/release "$(VERSION)" "$(REPOSITORY)" $(ARGS)

clean: ## Remove what make made here: environments, caches, builds (stop the lab cluster first)
	rm -rf .venv .venv-* .cache build
