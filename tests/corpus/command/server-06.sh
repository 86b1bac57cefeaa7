docker run --rm \
  --name llama-cuda-test \
  --gpus all \
  -p 8082:8080 \
  -v /opt/models:/opt/models \
  -v /var/llama-cpp/cuda:/save \
  ghcr.io/ggml-org/llama.cpp:server-cuda \
  -ngl auto
  --sleep-idle-seconds 600
  --host 0.0.0.0
  --port 8080
  --reasoning on
  --kv-offload
  --parallel 2
  --slots
  --metrics
  --slot-save-path /save
  --models-preset /opt/llama-cpp/models-cuda.ini
  --models-max 1
