"""Write a 0.5 MB llama-architecture model with random weights and a byte vocabulary. What it says is noise.

Run by the engine's own Python, which has numpy and gguf: `python tiny_model.py FILE`.
"""

import sys

import gguf
import numpy as np

WIDTH, HIDDEN, LAYERS, HEADS, VOCABULARY, CONTEXT = 64, 128, 2, 4, 259, 2048
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def write(path: str) -> None:
    """The model file; the same bytes each time."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> "np.ndarray":
        return (random.standard_normal(shape) * 0.1).astype(np.float32)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([2, 3, 3, *[6] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    writer.add_tensor("token_embd.weight", weights(VOCABULARY, WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output.weight", weights(VOCABULARY, WIDTH))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        writer.add_tensor(f"{block}attn_norm.weight", np.ones(WIDTH, np.float32))
        writer.add_tensor(f"{block}ffn_norm.weight", np.ones(WIDTH, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{block}{name}.weight", weights(WIDTH, WIDTH))
        writer.add_tensor(f"{block}ffn_gate.weight", weights(HIDDEN, WIDTH))
        writer.add_tensor(f"{block}ffn_up.weight", weights(HIDDEN, WIDTH))
        writer.add_tensor(f"{block}ffn_down.weight", weights(WIDTH, HIDDEN))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1])
