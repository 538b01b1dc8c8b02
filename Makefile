# Everything a developer runs; `make help` lists it. Cargo always builds in release: one profile
# serves daemon, demo and tests, so that a machine compiles OpenSSL and librdkafka once.

CARGO ?= cargo
CARGO_TEST = $(CARGO) test --release --locked

# Broker tests wait more than they compute; their own limit guards the heavy ones.
BROKER_TEST_THREADS ?= 6

# Property tests take 256 inputs each, or as many as PROPTEST_CASES says.
FUZZ_CASES ?= 1000000

# The oldest Kafka under test. `docs/testing.md` says what runs on it, and why the rest does not.
COMPAT_KAFKA ?= 3.9.2
COMPAT_TESTS := forwarding:: dead_letters:: rebalance:: \
	a_killed_and_restarted_broker_loses_and_repeats_nothing \
	the_loss_of_one_of_three_brokers_loses_and_repeats_nothing \
	a_stop_by_signal_loses_and_repeats_nothing_and_leaves_the_group_at_once \
	after_kill_9_nothing_is_lost_and_only_what_was_not_committed_is_repeated \
	records_held_and_parked_survive_a_stop_and_a_kill \
	a_client_certificate_is_the_login_where_the_broker_asks_for_one \
	passwords_work_over_tls_with_scram_and_plain \
	a_signed_token_from_a_file_works \
	the_documented_rights_are_enough \
	rights_taken_from_a_running_daemon_are_named_and_nothing_is_lost
# The consumer protocol (KIP-848) is a preview in 3.9.
COMPAT_SKIP := ten_changes_of_a_consumer_group_lose_repeat_and_silence_nothing \
	leaving_a_consumer_group_in_the_middle_of_a_rebalance_repeats_nothing \
	survivors_of_a_consumer_group_take_over_from_a_killed_one

# Test crates are tests/<name>.rs and tests/<name>/main.rs.
CRATES := $(patsubst tests/%.rs,%,$(wildcard tests/*.rs)) \
	$(patsubst tests/%/main.rs,%,$(wildcard tests/*/main.rs))
# Need Java and a real Kafka.
BROKER := $(filter broker clients,$(CRATES))
# Use librdkafka's mock cluster, or simulate time.
MOCK := $(filter mock_cluster simulation,$(CRATES))
TIDY := $(filter tidy docs_sync,$(CRATES))
# Builds a copy of the source with deliberate faults.
MUTATION := $(filter mutation,$(CRATES))
# Run the binary or read its files.
CLI := $(filter-out $(BROKER) $(MOCK) $(TIDY) $(MUTATION),$(CRATES))

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
test: prerequisites fmt-check lint test-unit test-tidy test-cli test-mock test-mutation test-broker test-compat test-deploy ## All checks and tests, with one command

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
fuzz: ## Hostile input at length: FUZZ_CASES inputs for each property, slow ones a fraction; a flood
	PROPTEST_CASES=$(FUZZ_CASES) $(CARGO_TEST) --lib hostile
	POISON=long $(CARGO_TEST) --test broker poison:: -- --nocapture

.PHONY: test-tidy
test-tidy: ## Layers, sizes and documentation that must match the code
	$(if $(TIDY),$(CARGO_TEST) $(addprefix --test ,$(TIDY)))

.PHONY: test-cli
test-cli: ## The binary from outside: commands, configuration, exit codes
	$(if $(CLI),$(CARGO_TEST) $(addprefix --test ,$(CLI)))

.PHONY: test-mock
test-mock: ## Simulated time, and librdkafka's mock cluster
	$(if $(MOCK),$(CARGO_TEST) $(addprefix --test ,$(MOCK)))

.PHONY: test-mutation
test-mutation: ## Whether the simulation finds deliberate faults
	$(if $(MUTATION),$(CARGO_TEST) $(addprefix --test ,$(MUTATION)) -- --nocapture)

.PHONY: test-broker
test-broker: ## A real Kafka as a local process (Java 17, Maven)
	$(if $(BROKER),$(CARGO_TEST) $(addprefix --test ,$(BROKER)) -- --test-threads=$(BROKER_TEST_THREADS) --skip chaos::)

.PHONY: test-compat
test-compat: ## The core scenarios on the oldest Kafka under test
	KAFKA_VERSION=$(COMPAT_KAFKA) $(CARGO_TEST) --test broker -- --test-threads=$(BROKER_TEST_THREADS) \
		$(COMPAT_TESTS) $(addprefix --skip ,$(COMPAT_SKIP))

.PHONY: chaos-short
chaos-short: ## Chaos on a real Kafka in its short form (about 5 minutes)
	$(CARGO_TEST) --test broker chaos:: -- --test-threads=$(BROKER_TEST_THREADS)

.PHONY: chaos
chaos: ## Chaos on a real Kafka in its long form (about half an hour): target/chaos.md
	@rm -f target/chaos.md
	@CHAOS=long $(CARGO_TEST) --test broker chaos:: -- --test-threads=1 --nocapture; \
		status=$$?; echo; cat target/chaos.md; exit $$status

.PHONY: ci
ci: ## What continuous integration runs
	.ci/run

.PHONY: clean
clean: ## Remove everything that was built or fetched
	$(CARGO) clean
