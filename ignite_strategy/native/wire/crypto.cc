#include "native/wire/crypto.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <climits>

#include "native/wire/error.h"

namespace ignite_strategy {

void InitOpenssl() {
  // No configuration file: it is another OpenSSL's, whose modules do not fit ours. No clean-up at exit:
  // TensorFlow's threads may still read.
  static const int done = OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  if (done != 1) throw Error(Code::kInternal, "OpenSSL cannot be set up");
}

std::string OpensslVersion() { return OpenSSL_version(OPENSSL_VERSION); }

void RandomBytes(void* data, std::size_t size) {
  InitOpenssl();
  if (size > INT_MAX || RAND_bytes(static_cast<unsigned char*>(data), static_cast<int>(size)) != 1) {
    throw Error(Code::kInternal, "no random bytes from the operating system");
  }
}

}  // namespace ignite_strategy
