"""What other libraries call our settings: a hint for who types a name that they know from there."""

from collections.abc import Mapping

_NAMES = {
    "training.lr": "learning_rate learningrate alpha eta rate step_size",
    "training.batch_size": "batch bs minibatch per_device_train_batch_size",
    "training.epochs": "num_epochs n_epochs max_epochs num_train_epochs",
    "training.steps": "updates max_steps num_steps n_steps iters max_iters iterations max_iter num_iterations",
    "training.minutes": "time max_minutes max_time",
    "training.weight_decay": "wd decay",
    "training.optimizer": "optim optimiser opt",
    "training.accumulation_steps": "gradient_accumulation gradient_accumulation_steps grad_accum accum",
    "training.grad_clip": "max_grad_norm gradient_clip clip_grad clipping max_norm grad_norm",
    "training.warmup": "warmup_steps num_warmup_steps warmup_ratio warmup_iters",
    "training.schedule": "scheduler lr_scheduler lr_schedule lr_scheduler_type",
    "training.patience": "early_stopping early_stop early_stopping_patience",
    "training.seed": "random_state random_seed manual_seed",
    "training.device": "gpu cuda",
    "training.precision": "fp16 bf16 amp mixed_precision dtype",
    "training.label_smoothing": "smoothing label_smoothing_factor",
    "training.validate_every": "eval_steps eval_interval eval_every",
    "training.checkpoint_every": "save_steps save_every save_interval",
    "training.mask_rate": "mlm_probability masking",
    "model.encoder": "architecture arch model_name model_type",
    "model.width": "d_model hidden_size n_embd embed_dim embedding_dim emb_dim hidden_dim hidden_units dim width",
    "model.layers": "n_layer n_layers num_layers num_hidden_layers depth num_blocks blocks nlayers",
    "model.heads": "n_head n_heads num_heads num_attention_heads nhead attention_heads",
    "model.hidden": "d_ff ffn_dim intermediate_size dim_feedforward feedforward_dim n_inner",
    "model.context": "block_size max_length max_len maxlen max_seq_len max_seq_length seq_len seq_length "
    "sequence_length context_length context_size n_ctx n_positions max_position_embeddings",
    "model.dropout": "drop dropout_rate dropout_p p_dropout drop_rate hidden_dropout_prob attention_dropout",
    "model.kernel": "kernel_size filter_size",
    "model.positions": "position_encoding positional_encoding pos_encoding position_embedding",
    "model.vectors": "embeddings word_vectors pretrained_embeddings glove word2vec fasttext",
    "model.from_run": "pretrained checkpoint init_from from_pretrained base_model finetune",
    "tokenizer.vocab_size": "vocab n_vocab vocabulary vocabulary_size num_words max_features max_vocab",
    "tokenizer.kind": "tokenizer tokeniser tokenizer_type",
    "tokenizer.min_count": "min_freq min_frequency min_df",
    "data.text": "text_column text_col feature column",
    "data.label": "label_column label_col target_column target_col y class_column labels",
    "data.validation": "val valid dev validation_file val_file",
    "data.test": "test_file",
    "data.validation_fraction": "val_split validation_split val_fraction val_size dev_size eval_fraction",
    "data.test_fraction": "test_size test_split",
    "data.extra_columns": "extra extras features columns",
    "data.source": "src source_column source_lang",
    "data.target": "tgt target_lang",
}
FIELD_NAMES: Mapping[str, str] = {name: key for key, names in _NAMES.items() for name in names.split()}
"""A setting's dotted key, by each of the names that it has elsewhere."""


def known_elsewhere(name: str) -> str | None:
    """The setting that is meant by a name, or by a flag, of another library."""
    plain = name.removeprefix("--").lower().replace("-", "_")
    section, _, last = plain.rpartition(".")
    key = FIELD_NAMES.get(last)
    return (
        key if key is not None and key != plain and section in ("", "model", "training", "data", "tokenizer") else None
    )
