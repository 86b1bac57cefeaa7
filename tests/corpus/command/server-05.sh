export CUDA_VISIBLE_DEVICES=
./llama-server -m ~/models/gemma-4-31B-it-qat-UD-Q4_K_XL.gguf \
 --host 0.0.0.0 --temp 1 --top-p 0.95 --top-k 64 \
 --port 9294 --alias gemma4-31b-it -fa on --jinja -n 81920 -c  108000 \
--mmproj ~/models/mmproj-BF16.gguf \
  --model-draft ~/models/mtp-gemma-4-31B-it.gguf \
  --spec-type draft-mtp --spec-draft-n-max 1 \
  -ngl 99 \
  --mlock --no-mmap \
  --prio 2  \
-np 1 \
-dev SYCL0 --spec-draft-device SYCL0 -lv 5
