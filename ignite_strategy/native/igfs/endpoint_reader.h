// A file of IGFS's endpoint that is open for reading: one stream of the server on one connection.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_READER_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_READER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "native/igfs/endpoint_backend.h"

namespace ignite_strategy {
namespace igfs {

// Reads just what is asked for, in pieces of which several are on their way; ahead of a reader that has
// proven sequential, a few more. A lost connection is replaced if the file is still the same.
class EndpointReader : public ReadableFile {
 public:
  static std::unique_ptr<EndpointReader> Open(std::shared_ptr<EndpointBackend> backend, const Path& path,
                                              const Wait& wait);
  ~EndpointReader() override;

  std::size_t Read(std::uint64_t offset, std::size_t size, char* out, const Wait& wait) override;
  std::uint64_t size() const override;

 private:
  // A part of the file that was asked for or will be. They are in the file's order and without gaps.
  struct Piece {
    std::uint64_t at = 0;
    std::size_t size = 0;
    std::size_t used = 0;         // of what was read ahead: what the reader has got already
    std::unique_ptr<char[]> own;  // null: it goes to `into`, in the reader's memory
    char* into = nullptr;
    std::int64_t request = -1;  // -1: not sent yet
    bool done = false;

    std::uint64_t end() const { return at + size; }
  };

  EndpointReader(std::shared_ptr<EndpointBackend> backend, Path path, const Wait& wait);

  void OpenStream(const Wait& wait);
  void Reopen(const Wait& wait);
  void CloseStream(const Wait& wait);
  void LookForMore(const Wait& wait);
  bool Same(const endpoint::FileInfo& info) const;
  void ReadPieces(std::uint64_t offset, std::size_t size, char* out, const Wait& wait);
  void Plan(std::uint64_t offset, std::size_t size, char* out);
  void SendSome(const Wait& wait);
  void ReceiveOne(const Wait& wait);
  void Drain(const Wait& wait);
  void Drop();
  [[noreturn]] void Explain(const endpoint::ServerError& error, const Wait& wait);

  const std::shared_ptr<EndpointBackend> backend_;
  const Path path_;
  const std::string what_;

  mutable std::mutex size_mutex_;
  std::uint64_t size_ = 0;

  std::timed_mutex mutex_;  // of all that follows
  Found found_;
  endpoint::Lease lease_;
  std::int64_t stream_ = 0;
  std::deque<Piece> pieces_;
  std::size_t flying_ = 0;
  std::uint64_t next_ = 0;  // where a sequential reader goes on
  bool began_ = false;
  std::size_t ahead_ = 0;
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_READER_H_
