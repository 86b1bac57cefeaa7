/opt/llama-server --host 0.0.0.0 --port 7879 -np 1 -b 256 -ub 256 -fa off --ctx-size 8192 -ngl 99 -fit off --pooling last -m Qwen3-Embedding-0.6B-Q8_0.gguf --embedding --metrics -lv 4
