// X25519 (RFC 7748), by OpenSSL: two ends that have told each other their public values have a
// secret that nobody finds out later who learns neither end's own number.
#pragma once

#include "lib/control/job_key.h"
#include "lib/control/secret.h"

namespace tutti {

// The public value of a number of 32 random bytes. False: OpenSSL has failed.
bool public_value(const JobKey& own, Nonce* out);
// What both ends find, each from its own number and the other's public value. False: OpenSSL has
// failed, or the value is one with which anybody finds the same.
bool agreed_secret(const JobKey& own, const Nonce& theirs, JobKey* out);

}  // namespace tutti
