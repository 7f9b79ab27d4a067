# A controller of JobSet or of Kubeflow's trainer, for the manifests of its module.
FROM scratch
COPY manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
