CUDA_VISIBLE_DEVICES="0," \
numactl --physcpubind="8,10,12,14, 24,26,28,30, 9,11,13,15, 25,27,29,31" --membind=1 /opt/llama.cpp/build/bin/llama-server \
--model /models/DeepSeek-R1-UD-Q2_K_XL-00001-of-00006.gguf \
--threads 16 \
--n-gpu-layers 99 \
--temp 0.6 --top_p 0.95 --min_p 0.01 \
--ctx-size 32768 \
--flash-attn \
--override-tensor ".ffn_.*_exps.=CPU"
