llama-server -m ./bge-large-zh-v1.5 --port 3358 -a emb@bge-large-zh-v1.5 -ngl 100 -c 8192 --samplers "temperature;top_p" --embeddings -ub 8192 --pooling cls
