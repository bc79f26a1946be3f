#!/usr/bin/env python3
"""Lightning on the CPU: DDPStrategy with tutti as the backend of its process group. Lightning starts the second process."""

import lightning
import torch
import torch.distributed as dist
import tutti_torch  # noqa: F401
from lightning.pytorch.strategies import DDPStrategy

BATCH, EPOCHS, DEVICES = 16, 4, 2


class Network(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).double()
        self.losses = []

    def training_step(self, batch):
        loss = torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1])
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self):
        self.losses.append(self.trainer.callback_metrics["loss"].item())

    def train_dataloader(self):
        return loader(self.global_rank, self.trainer.world_size)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def loader(rank, size):
    """This rank's part of each batch. (Lightning's own sampler shuffles.)"""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(256, 8, generator=generator, dtype=torch.double)[rank::size]
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]), batch_size=BATCH // size)


QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


def main():
    model = Network()
    trainer = lightning.Trainer(accelerator="cpu", devices=DEVICES, strategy=DDPStrategy(process_group_backend="tutti"), max_epochs=EPOCHS,
                                use_distributed_sampler=False, **QUIET)
    trainer.fit(model)
    if trainer.is_global_zero:
        print(f"{trainer.world_size} processes: loss {model.losses[0]:.4f}, after {EPOCHS} epochs {model.losses[-1]:.4f}")
    check(model, trainer)


# ------------------------------------------------------------------ of the test alone

def check(model, trainer):
    """Against one process, without Lightning."""
    assert dist.get_backend() == "tutti" and dist.get_world_size() == DEVICES == trainer.world_size
    alone = Network()
    optimizer, losses = alone.configure_optimizers(), []
    for _ in range(EPOCHS):
        losses.append(0)
        for x, y in loader(0, 1):
            loss = torch.nn.functional.mse_loss(alone.layers(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1] += loss.item() / 16
    assert losses[-1] < 0.5 * losses[0], losses
    torch.testing.assert_close(model.losses, losses, rtol=0, atol=1e-6)
    for got, one in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(got, one, rtol=0, atol=1e-6)


if __name__ == "__main__":
    main()
