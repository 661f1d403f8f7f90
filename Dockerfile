# One build, five images: `coordinator`, `passive-party`, `active-party`, `operator` (the active party's commands), and `lab`
# (certificates, data, audit).
#
#   docker build --target coordinator -t cloison/coordinator .
#
# Plain Dockerfile syntax only: the classic builder of Docker 20.10 and BuildKit both take it. `scripts/ci-base-images.sh`
# makes the two base images where there is no registry to pull them from.

ARG RUST_VERSION=1.95

# ---- builder -------------------------------------------------------------------------------------------------------
FROM rust:${RUST_VERSION}-slim-bookworm AS builder
WORKDIR /src
# `release` is built soonest. `--build-arg PROFILE=dist` optimises everything, at link time too: for images that are to be published.
ARG PROFILE=release
# Line tables stay out of the images; symbol names stay in, so that a backtrace still means something.
ENV CARGO_PROFILE_RELEASE_STRIP=debuginfo CARGO_PROFILE_DIST_STRIP=debuginfo CARGO_TERM_COLOR=never

# Dependencies first: this layer is reused until a manifest or the lock file changes. Cargo wants every declared target
# to exist, hence the empty stand-ins (also for benches and tests a manifest names).
# `scripts/ci-containers.sh --programs` replaces what is from here to the certificates.
COPY Cargo.toml Cargo.lock ./
COPY active-party/Cargo.toml active-party/
COPY coordinator/Cargo.toml coordinator/
COPY fuzz/targets/Cargo.toml fuzz/targets/
COPY lab/Cargo.toml lab/
COPY lab/auditor/Cargo.toml lab/auditor/
COPY lab/datasets/Cargo.toml lab/datasets/
COPY lab/demo/Cargo.toml lab/demo/
COPY lab/load/Cargo.toml lab/load/
COPY lab/papers/Cargo.toml lab/papers/
COPY lab/present/Cargo.toml lab/present/
COPY lab/reproduce/Cargo.toml lab/reproduce/
COPY lab/studies/Cargo.toml lab/studies/
COPY lab/testbed/Cargo.toml lab/testbed/
COPY lab/testing/Cargo.toml lab/testing/
COPY passive-party/Cargo.toml passive-party/
COPY shared/attack/Cargo.toml shared/attack/
COPY shared/core/Cargo.toml shared/core/
COPY shared/defense/Cargo.toml shared/defense/
COPY shared/features/Cargo.toml shared/features/
COPY shared/mpc/Cargo.toml shared/mpc/
COPY shared/numerics/Cargo.toml shared/numerics/
COPY shared/party/Cargo.toml shared/party/
COPY shared/protocol/Cargo.toml shared/protocol/
COPY shared/server/Cargo.toml shared/server/
COPY shared/state/Cargo.toml shared/state/
COPY shared/transform/Cargo.toml shared/transform/
COPY lab/structure/Cargo.toml lab/structure/
COPY examples/extension/Cargo.toml examples/extension/
RUN set -eu; \
    for crate in active-party coordinator fuzz/targets lab lab/auditor lab/datasets lab/demo lab/load lab/papers \
        lab/present lab/reproduce lab/studies lab/testbed lab/testing passive-party shared/attack shared/core \
        shared/defense shared/features shared/mpc shared/numerics shared/party shared/protocol shared/server \
        shared/state shared/transform lab/structure examples/extension; do \
        mkdir -p $crate/src; \
        : > $crate/src/lib.rs; \
        echo 'fn main() {}' > $crate/src/main.rs; \
        echo 'fn main() {}' > $crate/build.rs; \
        for kind in bench=benches test=tests example=examples; do \
            dir=$crate/${kind#*=}; mkdir -p $dir; \
            sed -n "/^\[\[${kind%=*}\]\]/,/^$/s/^name = \"\(.*\)\"/\1/p" $crate/Cargo.toml \
                | while read -r name; do echo 'fn main() {}' > $dir/$name.rs; done; \
        done; \
    done; \
    cargo build --profile "$PROFILE" --locked --workspace --lib --bins --features full; \
    rm -rf shared coordinator passive-party active-party lab fuzz examples "target/$PROFILE/.fingerprint/"vfl-* \
        "target/$PROFILE/.fingerprint/"cloison-*

COPY . .
RUN cargo build --profile "$PROFILE" --locked --workspace --bins --features full \
    && mkdir /out \
    && for name in coordinator passive-party active-party cloison cloison-reproduce cloison-load; do cp "target/$PROFILE/$name" /out/; done
# The CA certificates of Debian's package, without those that the builder itself trusts in addition.
RUN cat /usr/share/ca-certificates/mozilla/*.crt > /out/ca-certificates.crt \
    && cp /usr/share/doc/ca-certificates/copyright /out/ca-certificates.copyright

# ---- what every image shares ---------------------------------------------------------------------------------------
FROM debian:bookworm-slim AS runtime
# A fixed user id: volumes and secrets can be prepared for it. A new named volume takes the owner and mode of the
# directory it is mounted over, so these directories are what makes volumes writable for a service that is not root.
RUN groupadd --system --gid 10001 cloison \
    && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/cloison --no-create-home --shell /usr/sbin/nologin cloison \
    && install -d -m 0755 /etc/cloison \
    && install -d -m 0700 -o cloison -g cloison /etc/cloison/tls \
    && install -d -m 0750 -o cloison -g cloison /var/lib/cloison /var/lib/cloison/state /var/lib/cloison/data /var/lib/cloison/ids \
        /var/lib/cloison/report
COPY LICENSE /usr/share/doc/cloison/LICENSE
WORKDIR /var/lib/cloison
STOPSIGNAL SIGTERM

# ---- the parties ---------------------------------------------------------------------------------------------------
FROM runtime AS coordinator
COPY --from=builder /out/coordinator /usr/local/bin/
USER 10001:10001
EXPOSE 7100
ENTRYPOINT ["coordinator"]
CMD ["serve", "--config", "/etc/cloison/coordinator.toml"]

FROM runtime AS passive-party
COPY --from=builder /out/passive-party /usr/local/bin/
USER 10001:10001
EXPOSE 7101
ENTRYPOINT ["passive-party"]
CMD ["serve", "--config", "/etc/cloison/passive-party.toml"]

FROM runtime AS active-party
COPY --from=builder /out/active-party /usr/local/bin/
USER 10001:10001
EXPOSE 7102
ENTRYPOINT ["active-party"]
CMD ["serve", "--config", "/etc/cloison/active-party.toml"]

# ---- one-shot jobs -------------------------------------------------------------------------------------------------
FROM active-party AS operator
COPY scripts/compose/operator /usr/local/lib/cloison/
ENTRYPOINT ["/usr/local/lib/cloison/operator"]
CMD []

FROM runtime AS lab
COPY --from=builder /out/cloison /out/cloison-reproduce /out/cloison-load /usr/local/bin/
# What an object store is checked against. SSL_CERT_FILE names another file.
COPY --from=builder /out/ca-certificates.crt /etc/ssl/certs/
COPY --from=builder /out/ca-certificates.copyright /usr/share/doc/ca-certificates/copyright
COPY scripts/compose/certs scripts/compose/data scripts/compose/demo /usr/local/lib/cloison/
RUN install -d -m 0700 -o cloison -g cloison \
        /var/lib/cloison/tls/ca /var/lib/cloison/tls/coordinator /var/lib/cloison/tls/passive-1 \
        /var/lib/cloison/tls/active /var/lib/cloison/tls/auditor /etc/cloison/tls-auditor \
    && install -d -m 0750 -o cloison -g cloison \
        /var/lib/cloison/data/active /var/lib/cloison/data/passive-1
USER 10001:10001
ENTRYPOINT ["cloison"]
CMD ["--help"]
