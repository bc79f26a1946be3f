// A stream of the current GPU beside the null stream, in which LibTorch computes: collectives run
// in it while backward continues. Made with the CUDA driver, loaded at run time, because LibTorch's
// own streams cannot be passed to a library without CUDA's headers.
#pragma once

#include <memory>

namespace tutti::train {

class SideStream {
 public:
  // The GPU is current in this thread, and has been used. Throws Failure.
  SideStream();
  // Waits until the stream is empty.
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  void* handle() const { return stream_; }  // a CUstream
  // Orders later work in this stream after all that LibTorch has enqueued so far. Any thread.
  void follow() const;

  // A point in the stream (an event).
  class Mark {
   public:
    Mark() = default;
    bool passed() const;
    void wait() const;

   private:
    friend class SideStream;
    std::shared_ptr<void> event_;
  };
  // A mark after all that the stream has so far.
  Mark mark() const;

 private:
  void make_current() const;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  std::shared_ptr<void> computed_;  // the event that the stream last waited for
};

}  // namespace tutti::train
