# The image of `make image`, for those who have Docker:
#   docker build --build-arg VERSION=v0.1.0 -t REGISTRY/etcd-druid:v0.1.0 .
# It holds all programs, and whoever starts one says which. A test keeps it in line with the Makefile.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG VERSION=unknown
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -tags disable_grpc_modules -trimpath -ldflags "-s -w -X main.version=$VERSION" -o bin/ ./cmd/...

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/bin/etcd-druid /src/bin/etcdbrctl /src/bin/etcd-wrapper /usr/local/bin/
WORKDIR /
USER 65532:65532
