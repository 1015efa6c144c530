# One executable on a small base, as a user without rights. The data directory is a volume: it holds
# the embedded database, the journal, objects, and the secret key.
FROM node:22-bookworm-slim AS build
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund
COPY . .
RUN npm run build && mkdir /data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/dist/tollgate /usr/local/bin/tollgate
COPY --from=build /src/LICENSE /src/THIRD_PARTY_NOTICES.md /usr/share/doc/tollgate/
COPY --from=build --chown=nonroot:nonroot /data /data
ENV HOST=0.0.0.0 PORT=8080 TOLLGATE_DATA_DIR=/data
USER nonroot
EXPOSE 8080
VOLUME /data
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/usr/local/bin/tollgate", "health"]
# SIGTERM lets running requests finish; give it as long as server.drain_seconds.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/tollgate"]
CMD ["serve"]
