#include "native/igfs/endpoint_writer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "native/igfs/endpoint_names.h"

namespace ignite_strategy {
namespace igfs {

using endpoint::Command;
using endpoint::Connection;
using endpoint::Properties;
using endpoint::Refusal;
using endpoint::Request;
using endpoint::ResultType;
using endpoint::ServerError;

namespace {

// What is sent at once. Below 1 MiB the server is markedly slower.
constexpr std::size_t kPiece = 2 << 20;
// What a published file is extended by at once. A block of which the server gets only a part damages the
// file, also what was in it before. So each is small enough for the kernel to take it whole, and the next one
// waits until the server has read it: whole blocks arrive, whatever becomes of this process.
constexpr std::size_t kSafePiece = 16 * 1024;
// What is added to a file is kept here up to this size until it is flushed.
constexpr std::size_t kMostKept = 8 << 20;
constexpr Millis kDropLimit{2000};
// The server needs a moment to notice that the writer before has died.
constexpr Millis kLockLimit{3000};

std::optional<std::string> IdOf(const endpoint::FileInfo& info) {
  const auto found = info.properties.find(kIdProperty);
  if (found == info.properties.end()) return std::nullopt;
  return found->second;
}

}  // namespace

EndpointWriter::EndpointWriter(std::shared_ptr<EndpointBackend> backend, Path path)
    : backend_(std::move(backend)), path_(std::move(path)), what_(backend_->Describe(path_)) {}

std::unique_ptr<EndpointWriter> EndpointWriter::Open(std::shared_ptr<EndpointBackend> backend,
                                                     const Path& path, Mode mode, const Wait& wait) {
  std::unique_ptr<EndpointWriter> writer(new EndpointWriter(std::move(backend), path));
  EndpointBackend& files = *writer->backend_;
  if (path.empty())
    throw Error(Code::kFailedPrecondition, writer->what_ + " is the root directory, not a file");
  const auto found = files.Find(path, wait);
  if (found && found->info.is_directory) {
    throw Error(Code::kFailedPrecondition, writer->what_ + " is a directory, not a file");
  }
  if (found && mode == Mode::kExclusive) throw Error(Code::kAlreadyExists, writer->what_ + " exists already");
  if (!found) files.NeedParent(path, wait);
  writer->replaces_ = mode == Mode::kReplace;
  writer->must_publish_ = mode != Mode::kAppend || !found;
  if (found && mode == Mode::kAppend) {
    if (found->at != path) files.Move(found->at, path, wait);  // its replacement never came
    writer->in_place_ = true;
    writer->id_ = IdOf(found->info);
    writer->published_ = writer->length_ = found->info.length;
  }
  return writer;
}

EndpointWriter::~EndpointWriter() {
  if (!closed_) Drop();
}

Error EndpointWriter::Changed(const std::string& how) const {
  return Error(
      Code::kAborted,
      what_ + " " + how + " while it was being written: what was published stays, the rest is dropped");
}

template <typename Body>
void EndpointWriter::Guard(Body body) {
  if (generation_ != ForkGeneration()) throw OpenedByTheParent(what_);
  if (failure_) throw *failure_;
  if (closed_) throw Error(Code::kFailedPrecondition, what_ + " is closed");
  try {
    body();
  } catch (const ServerError& error) {
    lease_.Discard();
    failure_ = Error(error.code() == Code::kNotFound ? Code::kAborted : error.code(), error.message());
    throw *failure_;
  } catch (const Error& error) {
    lease_.Discard();
    failure_ = error;
    throw;
  } catch (...) {  // Ctrl-C, as Python's exception
    lease_.Discard();
    failure_ = Error(Code::kCancelled, what_ + ": interrupted while it was being written");
    throw;
  }
}

void EndpointWriter::Append(const char* data, std::size_t size, const Wait& wait) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Guard([&] { Fill(data, size, wait); });
}

void EndpointWriter::Fill(const char* data, std::size_t size, const Wait& wait) {
  while (size > 0) {
    const std::size_t room = in_place_ && !lease_ ? kMostKept : kPiece;
    if (buffer_.size() >= room) {
      SendBuffer(wait);
      continue;
    }
    const std::size_t some = std::min(room - buffer_.size(), size);
    if (some == kPiece && !in_place_) {  // a whole piece goes straight to the server
      OpenStream(wait);
      lease_->CheckNothingArrived("writing " + what_, wait);
      lease_->SendWriteBlock(stream_, data, some, wait);
    } else {
      buffer_.insert(buffer_.end(), data, data + some);
    }
    data += some;
    size -= some;
    length_ += some;
  }
}

void EndpointWriter::SendBuffer(const Wait& wait) {
  OpenStream(wait);
  const std::size_t piece = in_place_ ? kSafePiece : kPiece;
  for (std::size_t at = 0; at < buffer_.size(); at += piece) {
    lease_->CheckNothingArrived("writing " + what_, wait);
    lease_->SendWriteBlock(stream_, buffer_.data() + at, std::min(piece, buffer_.size() - at), wait);
    if (!in_place_) continue;
    // The server reads requests one after the other: it has read the block when it answers this.
    lease_->Call(Command::kInfo, Request().PutPaths(FormatPath(path_), "", false), ResultType::kFile,
                 "writing " + what_, wait);
    lease_->ReadFile(wait);
  }
  buffer_.clear();
}

void EndpointWriter::OpenStream(const Wait& wait) {
  if (lease_) return;
  if (in_place_) return Extend(wait);
  if (!unpublished_.empty()) throw Error(Code::kUnavailable, what_ + ": the connection was lost");
  Create(wait);
}

void EndpointWriter::Create(const Wait& wait) {
  if (!id_) id_ = NewUnpublishedName().substr(9);
  const Properties properties{{kIdProperty, *id_}};
  backend_->NeedParent(path_, wait);  // the server would make a directory that was removed anew
  lease_ = backend_->client().Keep(wait, [&](Connection& connection, bool) {
    // Another name for another attempt: the first one may have been made, and be open for a moment.
    unpublished_ = Sibling(path_, NewUnpublishedName());
    Request request;
    request.PutPaths(FormatPath(unpublished_), "", false, &properties);
    request.PutInt(0).PutLong(0);  // replication and block size: the server's own
    connection.Call(Command::kOpenCreate, request, ResultType::kLong, "creating " + what_, wait);
    stream_ = connection.ReadLong(wait);
  });
}

// Opens the published file to add to it; nobody else can while it is open.
void EndpointWriter::Extend(const Wait& wait) {
  const Wait limited = wait.Within(kLockLimit);
  while (!TryExtend(wait)) {
    if (Clock::now() >= limited.deadline) throw Changed("was kept open by another writer");
    std::this_thread::sleep_for(wait.NextSlice("waiting for another writer"));
  }
}

bool EndpointWriter::TryExtend(const Wait& wait) {
  const std::string where = FormatPath(path_);
  std::optional<endpoint::FileInfo> info;
  try {
    lease_ = backend_->client().Keep(wait, [&](Connection& connection, bool) {
      connection.Call(Command::kOpenAppend, Request().PutPaths(where, "", false), ResultType::kLong,
                      "opening " + where + " for append", wait);
      stream_ = connection.ReadLong(wait);
      connection.Call(Command::kInfo, Request().PutPaths(where, "", false), ResultType::kFile,
                      "looking at " + where, wait);
      info = connection.ReadFile(wait);
    });
  } catch (const ServerError& error) {
    if (error.IsLocked()) return false;
    if (error.refusal() == Refusal::kNotFound) throw Changed("was removed or renamed");
    throw;
  }
  if (info && !info->is_directory && IdOf(*info) == id_ && info->length == published_) return true;
  lease_.Discard();  // the server closes the stream with the connection: nothing was written to it
  throw Changed(info ? "was changed by another writer" : "was removed or renamed");
}

// With the rest of the buffer. The server answers when everything is stored.
void EndpointWriter::CloseStream(const Wait& wait) {
  const std::int64_t request = lease_->SendClose(stream_, buffer_.data(), buffer_.size(), wait);
  lease_->Await(request, ResultType::kBool, "writing " + what_, wait);
  if (!lease_->ReadBool(wait))
    throw Error(Code::kUnavailable, what_ + ": IGFS could not store what was written");
  buffer_.clear();
  lease_ = endpoint::Lease();
}

void EndpointWriter::Publish(const Wait& wait) {
  if (in_place_ ? length_ == published_ : length_ == 0 && !must_publish_) return;
  if (in_place_ && buffer_.size() > kSafePiece) SendBuffer(wait);
  OpenStream(wait);
  CloseStream(wait);
  if (!in_place_) PublishNew(wait);
  in_place_ = true;
  must_publish_ = false;
  published_ = length_;
}

void EndpointWriter::PublishNew(const Wait& wait) {
  if (replaces_) {
    backend_->Replace(unpublished_, path_, wait);
  } else {
    const auto found = backend_->Find(path_, wait);
    if (found) throw Changed("was created by another writer");
    try {
      backend_->Move(unpublished_, path_, wait);
    } catch (const ServerError& error) {
      if (error.refusal() == Refusal::kAlreadyExists) throw Changed("was created by another writer");
      throw;
    }
  }
  const auto now = backend_->Info(path_, wait);
  if (now && now->is_directory) {  // and the file is in it now
    Path inside = path_;
    inside.push_back(unpublished_.back());
    unpublished_ = std::move(inside);
    throw Error(Code::kFailedPrecondition, what_ + " has become a directory while it was being written");
  }
  unpublished_.clear();
}

void EndpointWriter::Flush(const Wait& wait) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Guard([&] { Publish(wait); });
}

void EndpointWriter::Close(const Wait& wait) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return;
  try {
    Guard([&] { Publish(wait); });
  } catch (...) {
    Drop();
    closed_ = true;
    throw;
  }
  closed_ = true;
}

void EndpointWriter::Abandon() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_) Drop();
  closed_ = true;
}

std::uint64_t EndpointWriter::Tell() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return length_;
}

// Removes what was not published. What was sent already to extend a file cannot be taken back.
void EndpointWriter::Drop() noexcept {
  if (generation_ != ForkGeneration()) return;  // what is on the cluster is the parent's
  buffer_ = {};
  try {
    const Wait wait = Wait::For(kDropLimit);
    if (lease_ && !unpublished_.empty()) CloseStream(wait);
    lease_.Discard();
    if (!unpublished_.empty()) backend_->Delete(unpublished_, false, wait);
  } catch (const std::exception&) {  // it is found when its directory is listed
    lease_.Discard();
  }
  unpublished_.clear();
}

}  // namespace igfs
}  // namespace ignite_strategy
