# stepsweep with the CUDA build of torch. docs/docker.md says how to build and run it.

# The newest CUDA that torch in requirements-cuda.txt was built for. `base` is enough: torch's wheels bring
# CUDA's libraries, the host its driver.
FROM nvidia/cuda:13.0.3-base-ubuntu24.04

# What torch.compile builds with: C++ for CPU code, C and Python's headers for Triton's launchers.
# hadolint ignore=DL3008  # Ubuntu keeps only the newest version of a package
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/stepsweep/bin:$PATH
WORKDIR /build

# The lock file alone first: an edit of the source does not install torch again.
COPY requirements-cuda.txt ./
RUN python3 -m venv /opt/stepsweep \
    && pip install --no-cache-dir --require-hashes -r requirements-cuda.txt

COPY LICENSE README.md pyproject.toml ./
COPY conf conf
COPY experiments experiments
COPY src src
RUN pip install --no-cache-dir --no-deps .

# Rows, logs and compile caches lie in outputs of the working directory.
RUN groupadd --gid 10001 stepsweep \
    && useradd --uid 10001 --gid 10001 --create-home stepsweep \
    && install -d -o 10001 -g 10001 /data /data/outputs
USER 10001:10001
WORKDIR /data
VOLUME /data

ENTRYPOINT ["stepsweep"]
CMD ["--help"]
