#!/usr/bin/env python3
"""Writes a tiny language model with random weights and a tokenizer of bytes, for servers that need one to start.

    tiny_model.py DIRECTORY        needs torch, transformers and tokenizers; no network
"""
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def main():
    torch.manual_seed(1)
    vocabulary = {character: i for i, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for special in ("<s>", "</s>"):
        vocabulary[special] = len(vocabulary)
    bytes_alone = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    tokenizer.chat_template = (
        "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant: ")
    config = LlamaConfig(vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=2, max_position_embeddings=32768, bos_token_id=vocabulary["<s>"],
                         eos_token_id=vocabulary["</s>"], pad_token_id=vocabulary["</s>"])
    LlamaForCausalLM(config).save_pretrained(sys.argv[1])
    tokenizer.save_pretrained(sys.argv[1])


if __name__ == "__main__":
    main()
