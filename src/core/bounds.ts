// Hard limits and timeouts, each with its reason. Limits that only one module needs are declared
// there.

/** Nested JSON deeper than this is an attack: real tool schemas stay below 30 levels. */
export const jsonDepthMax = 128;

/**
 * Field names in one request, across all objects. Each new name costs the parser as much as a page
 * of text. The longest supported prompt has 10,000 messages of about 10 names each.
 */
export const jsonNamesMax = 150_000;

/**
 * Values in one request, including arrays and objects: 7 million empty arrays are 20 MB of text and
 * 1 GB of memory. Embedding inputs can be lists of token IDs, and OpenAI accepts 300,000 of them.
 */
export const jsonValuesMax = 1_000_000;

/**
 * Different names and short strings in one JSON text, because each takes the parser 0.5 µs. The
 * tokens in the log probabilities of a long answer are 80,000 at most.
 */
export const jsonStringsMax = 100_000;

/**
 * Escaped characters in one JSON text, which take up to 35 ns each. Clients in Python escape all
 * Chinese characters, and prompts have at most 2 million tokens.
 */
export const jsonEscapesMax = 2_000_000;

/**
 * Values in one chat answer, including arrays and objects, because each takes memory and time. The
 * top 20 logprobs for each of 6,000 tokens are a million values.
 */
export const answerValuesMax = 1_000_000;

/** Characters per value in a long answer or event, at least. Log probabilities have 7. */
export const answerCharactersPerValue = 5;

/** Keeping long numbers exact takes 0.3 µs for each value, so longer answers have floats. */
export const exactValuesMax = 150_000;

/** Arrays and objects in any other answer. A long transcript has about 100,000 words. */
export const answerBracketsMax = 1_000_000;

/** Aliases in one fallback chain. More aliases would only add latency. */
export const chainModelsMax = 16;

/**
 * All attempts of one request until its answer begins, unless its first provider has a longer
 * timeout. An hour of audio takes up to 15 minutes.
 */
export const planMsMax = 1_200_000;

/** Upstream calls per request, however long the plan is. Enough for a full fallback chain. */
export const attemptsMax = 16;

/** Dropped parameters listed in a header. Longer headers break clients and proxies. */
export const droppedNamesMax = 50;

/** The size of one upstream event. Real events, such as a signed image, stay below 2 MB. */
export const eventBytesMax = 4 * 1024 * 1024;

/**
 * Bytes of a stream before its first content. Keep-alive comments add up to less than 1 MB per
 * hour, and an answer to a coding agent opens with 2 events.
 */
export const bytesWithoutOutputMax = 4 * eventBytesMax;

/**
 * Lines of a stream without an event, and events without content. Short ones take as much time as
 * long ones. In an hour, these are 28 lines per second, but providers send one or two keep-alive
 * comments.
 */
export const linesWithoutEventMax = 100_000;
export const eventsWithoutContentMax = 100_000;

/** The size of a non-streaming upstream response, in which images arrive as base64 in JSON. */
export const replyBytesMax = 64 * 1024 * 1024;

/** The status line and headers of an upstream's response. Most servers send no more than 16 KB. */
export const answerHeadBytesMax = 64 * 1024;

/** The line before each HTTP chunk: its length and an optional extension, which is rare. */
export const chunkLineBytesMax = 4 * 1024;

/** Idle connections kept open per provider, enough for the next burst of requests. */
export const idleConnectionsMax = 64;

/**
 * Abandoned connection attempts per provider. The OS keeps each for about 2 minutes, so a provider
 * that drops packets would exhaust the open files.
 */
export const abandonedConnectionsMax = 256;

/** How much of a provider's error response is read to find its message. */
export const errorBytesMax = 64 * 1024;

/** Names, notes, and labels that people enter. */
export const nameLengthMax = 200;

/** Keys per tenant, including disabled ones. */
export const keysPerTenantMax = 10_000;

/** Entries of a key's model allow-list. */
export const allowListMax = 200;

/** Cached unknown keys, so that a retry storm doesn't reach the store. */
export const negativeKeysMax = 10_000;
export const negativeKeyMs = 2_000;

/**
 * Long request bodies in memory, unless the operator allows more. Their requests take up to 4 times
 * as much, 0.8 GB.
 */
export const longBodiesBytesMax = 192 * 1024 * 1024;

/** How often a process polls for changed keys, tenants, credentials, and skills. */
export const changePollMs = 400;

/** One attempt, from the first byte sent to the last received. The longest answers take minutes. */
export const attemptMsMax = 3_600_000;

/**
 * After this long without reading, a client counts as disconnected. The runtime can't wait longer.
 */
export const clientStallMs = 240_000;

/** How often a streaming client gets a keep-alive comment while the provider sends nothing. */
export const keepAliveMs = 15_000;

/** Settled requests waiting for an unreachable database. Above this, new requests are rejected. */
export const unbookedMax = 100_000;

/**
 * Journal bytes on disk while the database is unreachable. Above this, new requests are rejected.
 */
export const journalBytesMax = 1024 * 1024 * 1024;

/** How long an answer waits for its journal line to be written before it is aborted. */
export const journalWaitMs = 5_000;

/** Provider models with their own metrics, 13 kB each. Others are counted as `other`. */
export const metricSeriesMax = 1_000;

/**
 * Unknown model names recorded per tenant and day, and the number of tenants. Each name adds a
 * permanent row to the daily sums, and a person makes only a few typos.
 */
export const unknownModelNamesMax = 100;
export const unknownModelTenantsMax = 1_000;

/** Request log lines waiting for a slow reader, about 5 MB. Above this, lines are dropped. */
export const requestLinesMax = 10_000;

/** Other log lines that are waiting, about 1 MB. They are longer, but there are few of them. */
export const logLinesMax = 1_000;

/** Finished requests waiting for an unreachable trace collector. Above this, traces are dropped. */
export const tracesWaitingMax = 2_000;

/** Skills per tenant, more than anyone will browse. */
export const skillsPerTenantMax = 100;

/** Skills per request. This limit and the next one bound how much skills add to a prompt. */
export const skillsPerRequestMax = 10;
export const skillInstructionsMax = 20_000;
export const skillDescriptionMax = 500;

/** Skills cached in memory, at most 40 MB. */
export const cachedSkillsMax = 1_000;

/** A search engine's full response: 50 KB for each of up to 20 results. */
export const searchAnswerBytesMax = 1024 * 1024;

/** How long one search can take. The model and the client wait for its results. */
export const searchMsMax = 10_000;

/** Characters and words of one query. Brave and Tavily reject longer queries. */
export const searchQueryMax = 400;
export const searchTermsMax = 50;

/** The most results that any of the engines returns for one query. */
export const searchResultsMax = 20;

/**
 * The total length of stored search results. If the model calls the search tool and the client's
 * tools together, the results are stored until the client's next request. The oldest are dropped
 * first.
 */
export const searchNotesLengthMax = 32 * 1024 * 1024;

/** The text that one search adds to a prompt, about 6,000 tokens. */
export const searchTextMax = 24_000;

/** Citations reported for one answer. */
export const citationsMax = 200;

/**
 * In minutes. If the clock is set back by less than this, rate limits wait for it to catch up. If
 * it is set back further, it was wrong before, so the limits start over.
 */
export const rateWindowsBackMax = 5;

/**
 * How long a concurrency slot in Redis lasts unless its process renews it, because processes die.
 */
export const slotTtlMs = 30_000;
export const slotRenewMs = 10_000;

/** How long a freed slot can still count, unless the next request reports it earlier. */
export const slotReleaseMs = 20;

/** Slots per command. A few hundred keep Redis busy for less than a millisecond. */
export const slotsPerMessage = 500;

/** Requests traced at the same time. Above this, new ones aren't traced. */
export const tracesOpenMax = 20_000;

/** The text of one speech job, in characters. */
export const jobTextLengthMax = 200_000;

/** The audio file of one transcription job. */
export const jobFileBytesMax = 500 * 1024 * 1024;

/** The audio of one transcription call. Longer files are split. */
export const transcriptionBytesMax = 25 * 1024 * 1024;

/** URLs in one request. Each takes time to check, and a body has room for millions. */
export const requestUrlsMax = 10_000;

/** Queued and running jobs per tenant. Above this, new jobs are rejected. */
export const jobsWaitingMax = 10_000;

/**
 * Free disk space that uploads and outputs leave for the journal and the database: enough for a
 * busy hour.
 */
export const diskFreeBytesMin = 256 * 1024 * 1024;

/** Disk space for the inputs of one tenant's jobs. */
export const jobInputBytesMax = 20 * 1024 * 1024 * 1024;

/** Attempts without progress before a job fails, because its input may crash the process. */
export const jobAttemptsMax = 3;

/** From a job's first start to its end, however slow its provider is. */
export const jobMsMax = 6 * 3_600_000;

/** An output can be downloaded for a day; the job's row stays for a month. */
export const jobOutputMs = 24 * 3_600_000;
export const jobRowMs = 30 * 24 * 3_600_000;

/** Concurrent webhook deliveries, in total and per tenant. */
export const concurrentWebhooksMax = 16;
export const webhooksPerTenantMax = 4;

/** How long a webhook receiver can take to respond. The response body isn't read. */
export const webhookMsMax = 10_000;

/**
 * Form limits: a part's headers, the number of parts, and all text fields, which stay in memory.
 */
export const formHeaderBytesMax = 16 * 1024;
export const formPartsMax = 64;
export const formFieldsBytesMax = 1024 * 1024;

/** How long one form can take in total, however slowly but steadily it arrives. */
export const formMsMax = 3_600_000;

/** After this long without receiving data, a request body counts as stalled. */
export const bodyStallMs = 30_000;

/** How much of a rejected body is read, and for how long, so that the client receives the error. */
export const rejectedBodyMsMax = 10_000;
export const rejectedBodyBytesMax = 1024 * 1024;

/** The minimum speed of long bodies in both directions: 128 kbit/s, a phone with a weak signal. */
export const bodyBytesPerSecondMin = 16 * 1024;

/** Tool arguments buffered until an earlier call ends. Arguments with a large file take 1 MB. */
export const bufferedArgumentsMax = 4 * 1024 * 1024;

/**
 * Tool calls of one streamed answer, and the total length of their IDs and names, which are
 * buffered.
 */
export const toolCallsPerAnswerMax = 1_024;
export const toolCallNamesLengthMax = 4 * 1024 * 1024;

/** Content blocks of one upstream answer open at the same time. Real answers have one. */
export const openBlocksMax = 64;

/** Longer answers aren't cached, because each would evict many others. */
export const cachedLengthMax = 4 * 1024 * 1024;

/** Identical requests that wait for one answer. Others are sent separately. */
export const cacheFollowersMax = 1_000;

/** How long an idempotency key returns its first answer. */
export const idempotencyTtlMs = 86_400_000;

/** After this long without renewal, a claim belongs to a process that died. */
export const idempotencyLeaseMs = 30_000;

/** How long an answer waits for the store. After that it is sent and stored later. */
export const idempotencyWriteMs = 2_000;

/**
 * Total length of answers waiting for an unreachable store. Above this, answers are lost, and their
 * requests can be repeated for free.
 */
export const unwrittenLengthMax = 64 * 1024 * 1024;

/** How often a repeated request checks whether the first one is done. */
export const idempotencyPollMs = 150;

/** Long enough for images as base64. If an answer is longer, only its claim is stored. */
export const idempotentLengthMax = 32 * 1024 * 1024;

/**
 * Stored answers for idempotency keys per tenant: 2 million short answers or 2,000 images a day.
 * Above this, requests with a new key are rejected until old answers expire.
 */
export const idempotentBytesPerTenantMax = 4 * 1024 * 1024 * 1024;

/** Unsupported fields collected per request. A response header lists up to `droppedNamesMax`. */
export const unsupportedNamesMax = 32;

/** Output items tracked per streamed answer. Real answers have a few dozen. */
export const outputItemsMax = 4_096;

/** The last event of a streamed response repeats the full response, with images as base64. */
export const streamedResponseLengthMax = 32 * 1024 * 1024;

/** Inputs per embeddings request, the same limit as OpenAI's. */
export const embeddingsInputsMax = 2_048;

/** Concurrent calls of one embeddings request, for providers with a small batch size. */
export const concurrentEmbeddingCalls = 4;

/** An image edit request including its files. */
export const imageEditBytesMax = 100 * 1024 * 1024;

/** Images per edit request, the same limit as OpenAI's. */
export const editImagesMax = 16;

/** One image attempt, regardless of the provider's timeouts. The slowest images take 3 minutes. */
export const imageAttemptMs = 300_000;

/** Pixels of a mask, more than any model edits. Converting it takes a byte per pixel. */
export const maskPixelsMax = 32 * 1024 * 1024;

/** An image that a provider returned as a URL. */
export const imageBytesMax = 32 * 1024 * 1024;

/**
 * How long measuring an audio file can take. If its length stays unknown, more credits are held.
 */
export const audioMeasureMs = 500;

/** One attempt at a long audio file. Providers need at most a tenth of its duration. */
export const transcriptionAttemptMsMax = 900_000;

/** How long a provider can take to count tokens. After that, an estimate is used. */
export const countMsMax = 5_000;

/** A provider's response to a token count: a number or an error message. */
export const countAnswerLengthMax = 16 * 1024;

/** Concurrent token counts by providers, per tenant. They are free, so any others are estimated. */
export const concurrentCountsMax = 32;

/** Failed sign-ins that are logged per minute and process. Someone may try millions of keys. */
export const signInFailuresPerMinuteMax = 100;
