// A stream of the current GPU beside the one in which LibTorch computes, which is the null stream:
// collectives run in it while backward goes on. By the GPU's driver, loaded at run time, because
// LibTorch's own streams cannot be handed to a library without CUDA's headers.
#pragma once

#include <memory>

namespace tutti::train {

class SideStream {
 public:
  // The GPU is current in this thread, and has been used. Throws Failure.
  SideStream();
  // Waits for what is in it.
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  void* handle() const;  // a CUstream
  // What comes next in it waits for what LibTorch has been told to compute so far. Any thread.
  void follow() const;

  // A place in the stream.
  class Mark {
   public:
    Mark() = default;
    bool passed() const;
    void wait() const;

   private:
    friend class SideStream;
    std::shared_ptr<void> event_;
  };
  // Behind all that is in it so far.
  Mark mark() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace tutti::train
