// The gradients of real models, divided into buckets as PyTorch's DistributedDataParallel divides
// them. Shapes are the published ones: torchvision's resnet50, OpenAI's GPT-2 (124M, the output
// layer shares the token embedding), BERT-large uncased with its pooler.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::bench {

struct Parameter {
  std::string name;
  size_t count;  // elements
};

struct Workload {
  std::string name;
  size_t total;                       // the published number of parameters
  std::vector<Parameter> parameters;  // in order of registration
};

// Throws BadInput with the names that are allowed, Failure if the shapes do not add up to the
// published total.
Workload make_workload(const std::string& name);
std::vector<std::string> workload_names();

// Elements of each bucket, in the order in which they become ready in the backward pass: parameters
// in reverse; a bucket closes once its bytes reach the limit, 1 MiB for the first, 25 MiB for
// others.
std::vector<size_t> make_buckets(const Workload& workload, size_t element_size);

}  // namespace tutti::bench
