FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build

# The binary and the certificates by which it knows Stripe. No shell, no root.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/weir /weir
USER 65532:65532
ENTRYPOINT ["/weir"]
CMD ["help"]
