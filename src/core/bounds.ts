/** Every hard limit with its reason. A number here has a test that reaches it. */

/** Nested JSON deeper than this is an attack: real tool schemas stay below thirty levels. */
export const jsonDepthMax = 128;

/** Aliases in one fallback chain; more would only multiply waiting. */
export const chainModelsMax = 16;

/** Upstream calls for one request, however long the plan is. */
export const attemptsMax = 8;

/** One event of an upstream stream. Real ones stay below 2 MB (a signature with an image). */
export const eventBytesMax = 4 * 1024 * 1024;

/** A whole non-streamed upstream answer; images come as base64 inside JSON. */
export const replyBytesMax = 64 * 1024 * 1024;

/** How much of an upstream's error page we read to find its message. */
export const errorBytesMax = 64 * 1024;

/** Names, notes and labels that people type. */
export const nameLengthMax = 200;

/** Keys a tenant may hold, live and disabled together. */
export const keysPerTenantMax = 10_000;

/** Entries of a key's model allow-list. */
export const allowListMax = 200;

/** Rejected credentials remembered, so that a retry storm does not reach the store. */
export const negativeKeysMax = 10_000;
export const negativeKeyMs = 2_000;

/** How often a process asks whether keys, tenants or prices changed elsewhere. */
export const changePollMs = 400;

/** One attempt from its first byte sent to its last received; the longest answers take minutes. */
export const attemptMsMax = 3_600_000;

/** A client that takes nothing for this long is gone without having said so. */
export const clientStallMs = 600_000;

/** While the upstream is silent, a streaming client hears from us this often. */
export const keepAliveMs = 15_000;

/** Settled requests waiting for a database that is away. Past this, new work is refused. */
export const undrainedMax = 100_000;

/** Journal bytes on disk while the database is away. Past this, new work is refused. */
export const journalBytesMax = 1024 * 1024 * 1024;

/** How long an answer waits for its line to reach the journal before it is broken off. */
export const journalWaitMs = 5_000;
