# Everything a developer runs; `make help` lists it. Cargo always builds in release: one profile
# serves daemon, demo and tests, so that a machine compiles OpenSSL and librdkafka once.

CARGO ?= cargo
CARGO_TEST = $(CARGO) test --release --locked

# Broker tests wait more than they compute; their own limit guards the heavy ones.
BROKER_TEST_THREADS ?= 6

# Property tests take 256 inputs each, or as many as PROPTEST_CASES says.
FUZZ_CASES ?= 1000000

# Test crates are tests/<name>.rs and tests/<name>/main.rs.
CRATES := $(patsubst tests/%.rs,%,$(wildcard tests/*.rs)) \
	$(patsubst tests/%/main.rs,%,$(wildcard tests/*/main.rs))
# Need Java and a real Kafka.
BROKER := $(filter broker clients,$(CRATES))
# Use librdkafka's mock cluster, or simulate time.
MOCK := $(filter mock_cluster simulation,$(CRATES))
TIDY := $(filter tidy docs_sync,$(CRATES))
# Run the binary or read its files.
CLI := $(filter-out $(BROKER) $(MOCK) $(TIDY),$(CRATES))

.DEFAULT_GOAL := help

# The steps of `test` in order; cargo uses all cores by itself.
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the binary: target/release/kafka-delay
	$(CARGO) build --release --locked

.PHONY: demo
demo: ## Watch records being delayed, without a Kafka
	$(CARGO) run --release --locked --quiet -- demo

.PHONY: prerequisites
prerequisites: ## Install what build and tests need (Debian, as root), or say what is missing
	scripts/prerequisites

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt

.PHONY: fmt-check
fmt-check: ## Fail if the code is not formatted
	$(CARGO) fmt --check

.PHONY: lint
lint: ## Clippy on everything; a warning is an error
	$(CARGO) clippy --release --locked --all-targets -- -D warnings

.PHONY: deny
deny: ## Check licences, sources and duplicates of dependencies (needs cargo-deny)
	$(CARGO) deny --locked check licenses bans sources

.PHONY: test
test: prerequisites fmt-check lint test-unit test-tidy test-cli test-mock test-broker test-deploy ## All checks and tests, with one command

.PHONY: test-deploy
test-deploy: build ## Compose file, Dockerfile, Prometheus rules: with the tools that read them
	deploy/check.sh

.PHONY: bench
bench: ## Lateness, drain and idle cost on a real Kafka, beside their floors
	$(CARGO) bench --locked --bench figures

.PHONY: test-unit
test-unit: ## Unit tests and documentation examples
	$(CARGO_TEST) --lib --bins
	$(CARGO_TEST) --doc

.PHONY: fuzz
fuzz: ## Hostile input at length: FUZZ_CASES inputs for each property, slow ones a fraction
	PROPTEST_CASES=$(FUZZ_CASES) $(CARGO_TEST) --lib hostile

.PHONY: test-tidy
test-tidy: ## Layers, sizes and documentation that must match the code
	$(if $(TIDY),$(CARGO_TEST) $(addprefix --test ,$(TIDY)))

.PHONY: test-cli
test-cli: ## The binary from outside: commands, configuration, exit codes
	$(if $(CLI),$(CARGO_TEST) $(addprefix --test ,$(CLI)))

.PHONY: test-mock
test-mock: ## Simulated time, and librdkafka's mock cluster
	$(if $(MOCK),$(CARGO_TEST) $(addprefix --test ,$(MOCK)))

.PHONY: test-broker
test-broker: ## A real Kafka as a local process (Java 17, Maven)
	$(if $(BROKER),$(CARGO_TEST) $(addprefix --test ,$(BROKER)) -- --test-threads=$(BROKER_TEST_THREADS))

.PHONY: ci
ci: ## What continuous integration runs
	.ci/run

.PHONY: clean
clean: ## Remove everything that was built or fetched
	$(CARGO) clean
