# The server. Build arguments choose the runtime: RUNTIME=cpu (default) or gpu.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
ARG RUNTIME=cpu
WORKDIR /src
# uv stays behind in this stage; the server itself needs pip alone, to get the default model.
RUN python -m venv /opt/tokenloom && pip install --no-cache-dir "uv>=0.5,<1"
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY clients/python clients/python
COPY runtime runtime
COPY service service
# requirements.lock holds every version down; packages of development and of the other runtime are not installed.
RUN uv pip install --no-cache --python /opt/tokenloom/bin/python \
      --constraint requirements.lock ./clients/python ".[${RUNTIME},otel]"

FROM python:${PYTHON}-slim
RUN useradd --create-home --uid 10001 tokenloom && mkdir /cache && chown tokenloom /cache
COPY --from=build /opt/tokenloom /opt/tokenloom
# glibc would give logits-sized blocks back to the system after each message and fault them in again.
ENV PATH=/opt/tokenloom/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/cache \
    TOKENLOOM_HOST=0.0.0.0 \
    TOKENLOOM_METRICS_PORT=9464 \
    MALLOC_TRIM_THRESHOLD_=268435456 \
    MALLOC_MMAP_THRESHOLD_=268435456 \
    MALLOC_TOP_PAD_=67108864
USER tokenloom
VOLUME /cache
EXPOSE 50051 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=180s CMD ["tokenloom", "health"]
ENTRYPOINT ["tokenloom"]
CMD ["serve"]
