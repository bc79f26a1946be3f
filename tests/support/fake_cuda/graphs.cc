// Captures, and graphs made from them. The nodes captured from one stream run in order in one
// thread, and wait for those of other streams as the captured events require.
#include <algorithm>

#include "tests/support/fake_cuda/state.h"

namespace fake {

namespace {

// Whether every node of another stream precedes one of the origin's last nodes.
bool joined(const Capture& capture) {
  std::vector<bool> reached(capture.nodes.size(), false);
  for (const size_t node : capture.origin->ends) reached[node] = true;
  for (size_t node = capture.nodes.size(); node-- > 0;) {
    if (!reached[node]) continue;
    for (const size_t earlier : capture.nodes[node].after) reached[earlier] = true;
  }
  return std::all_of(reached.begin(), reached.end(), [](bool is) { return is; });
}

void launch(GraphExec& exec, Stream& stream) {
  std::vector<Token> first = before(stream);
  first.push_back(exec.last);
  const Token begun = stream.queue->push({}, std::move(first));
  std::vector<Token> ended;
  for (const Node& node : exec.graph.nodes) {
    Queue& queue = node.lane == 0 ? *stream.queue : *exec.queues[node.lane - 1];
    std::vector<Token> after{begun};
    for (const size_t earlier : node.after) after.push_back(ended[earlier]);
    ended.push_back(queue.push(node.work, std::move(after)));
  }
  exec.last = stream.queue->push({}, std::move(ended));
}

}  // namespace
}  // namespace fake

using fake::Call;
using fake::state;

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const Call call("cuThreadExchangeStreamCaptureMode", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  std::swap(*mode, fake::capture_mode());
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  const Call call("cuStreamBeginCapture");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (handle == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<fake::Capture>();
  capture->id = ++state().last_capture;
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams = {stream};
  state().captures.insert(capture.get());
  stream->capture = std::move(capture);
  stream->lane = 0;
  stream->ends.clear();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status,
                                              cuuint64_t* id, CUgraph*, const CUgraphNode**,
                                              size_t*) {
  const Call call("cuStreamGetCaptureInfo");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (fake::blocked_by_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = stream->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (stream->capture != nullptr) *id = stream->capture->id;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  const Call call("cuStreamEndCapture");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<fake::Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool whole = fake::joined(*capture);
  for (fake::Stream* member : capture->streams) {
    member->capture = nullptr;
    member->ends.clear();
  }
  state().captures.erase(capture.get());
  *out = nullptr;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!whole) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *out = reinterpret_cast<CUgraph>(
      new fake::Graph{std::move(capture->nodes), capture->streams.size()});
  ++state().counts.created;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, unsigned long long) {
  const Call call("cuGraphInstantiate");
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* const made = new fake::GraphExec{*reinterpret_cast<fake::Graph*>(graph), {}, {}};
  for (size_t lane = 1; lane < made->graph.lanes; ++lane) {
    made->queues.push_back(std::make_shared<fake::Queue>());
  }
  ++state().counts.created;
  *out = reinterpret_cast<CUgraphExec>(made);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  const Call call("cuGraphDestroy");
  if (call.error() != CUDA_SUCCESS) return call.error();
  delete reinterpret_cast<fake::Graph*>(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  const Call call("cuGraphLaunch");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr || exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  fake::launch(*reinterpret_cast<fake::GraphExec*>(exec), *stream);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const Call call("cuGraphExecDestroy");
  if (call.error() != CUDA_SUCCESS) return call.error();
  delete reinterpret_cast<fake::GraphExec*>(exec);
  return CUDA_SUCCESS;
}
