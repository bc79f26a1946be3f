#!/usr/bin/env python3
"""TensorFlow and Keras: data-parallel training by an optimizer that averages gradients over the ranks, with Keras's `fit`
and with a loop of its own.

    tutti run -n 2 python tensorflow_test.py
"""

import keras
import numpy as np
import tensorflow as tf
import tutti


def average(comm, tensors):
    """The tensors' averages over all ranks, in a function of TensorFlow or outside: one allreduce of all of them together."""
    def allreduce(vector):
        out = np.empty_like(vector)
        comm.Allreduce(np.ascontiguousarray(vector), out, op=tutti.AVG)
        return out

    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
    averages = tf.numpy_function(allreduce, [flat], flat.dtype)  # stateful: called once a step, never left out
    parts = tf.split(tf.ensure_shape(averages, flat.shape), [tensor.shape.num_elements() for tensor in tensors])
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors)]


def averaging(optimizer, comm):
    """A class like `optimizer`, which applies the ranks' average of what it is given."""
    class Averaging(optimizer):
        def apply(self, grads, trainable_variables=None):
            return super().apply(average(comm, [tf.convert_to_tensor(grad) for grad in grads]), trainable_variables)

    return Averaging


def network():
    """The same on all ranks: by its seed. Otherwise comm.Bcast() of model.get_weights() makes it so."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(),
                              keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
    return model


def samples():
    random = np.random.default_rng(1)
    x = random.standard_normal((256, 8, 8, 1)).astype(np.float32)
    return x, np.tanh(x[:, 2:5, 2:5, 0].sum((1, 2)))[:, None]


BATCH, EPOCHS = 64, 5


def by_fit(comm, x, y):
    """Keras's loop. Of every batch of all ranks each rank has its share, as large as the others'."""
    model = network()
    model.compile(averaging(keras.optimizers.Adam, comm)(0.01), "mse", jit_compile=False)  # XLA cannot call Python
    model.fit(x[comm.rank::comm.size], y[comm.rank::comm.size], batch_size=BATCH // comm.size, epochs=EPOCHS, shuffle=False, verbose=0)
    return model


def by_tape(comm, x, y):
    """A loop of the program's own."""
    model, optimizer = network(), keras.optimizers.Adam(0.01)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply(average(comm, tape.gradient(loss, model.trainable_variables)), model.trainable_variables)

    optimizer.build(model.trainable_variables)
    data = tf.data.Dataset.from_tensor_slices((x[comm.rank::comm.size], y[comm.rank::comm.size])).batch(BATCH // comm.size)
    for _ in range(EPOCHS):
        for batch in data:
            step(*batch)
    return model


def main():
    x, y = samples()
    with tutti.init() as comm:
        models = [train(comm, x, y) for train in (by_fit, by_tape)]
        losses = [float(np.mean((model(x) - y) ** 2)) for model in (network(), *models)]
        if comm.rank == 0:
            print(f"{comm.size} ranks: loss {losses[0]:.4f}, by fit {losses[1]:.4f}, by tape {losses[2]:.4f}")
        check(comm, models, losses, x, y)


# ------------------------------------------------------------------ of the test alone

def flat(model):
    return np.concatenate([weights.ravel() for weights in model.get_weights()])


def check(comm, models, losses, x, y):
    """Against one process with all samples, by Keras alone."""
    assert comm.size > 1 and max(losses[1:]) < 0.5 * losses[0], losses
    alone = network()
    alone.compile(keras.optimizers.Adam(0.01), "mse")
    alone.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    for model in models:
        np.testing.assert_allclose(flat(model), flat(alone), rtol=0, atol=1e-6)
        assert len(set(comm.allgather(flat(model).tobytes()))) == 1, "the ranks' weights differ"


if __name__ == "__main__":
    main()
