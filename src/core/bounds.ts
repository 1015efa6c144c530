/** Hard limits and waits, each with its reason. More of them stand beside their use. */

/** Nested JSON deeper than this is an attack: real tool schemas stay below thirty levels. */
export const jsonDepthMax = 128;

/**
 * Names of fields in one request, all objects together. Each new name costs the parser as much as a
 * page of text; the longest conversation that is taken has 10,000 messages of some ten names each.
 */
export const jsonNamesMax = 150_000;

/**
 * Values of one request, lists and objects among them: seven million empty lists are 20 MB of text
 * and a gigabyte of memory. Texts to embed may come as tokens, of which OpenAI takes 300,000.
 */
export const jsonValuesMax = 1_000_000;

/**
 * Values of one answer in a chat, lists and objects among them: each takes memory and time, however
 * short its text is. The twenty likeliest words for each of 32,768 tokens are 5.6 million.
 */
export const answerValuesMax = 6_000_000;

/** Lists, and objects, of any other answer: a long recording has some 100,000 words. */
export const answerBracketsMax = 1_000_000;

/** Aliases in one fallback chain; more would only multiply waiting. */
export const chainModelsMax = 16;

/** Upstream calls for one request, however long the plan is: a whole chain can be tried. */
export const attemptsMax = 16;

/** Lost parameters named in a header; longer headers break clients and proxies. */
export const droppedNamesMax = 50;

/** One event of an upstream stream. Real ones stay below 2 MB (a signature with an image). */
export const eventBytesMax = 4 * 1024 * 1024;

/**
 * Bytes of a stream without a word among them: comments that keep it open are less than 1 MB in an
 * hour, and what opens the answer to a coding agent is two events.
 */
export const contentlessBytesMax = 4 * eventBytesMax;

/** A whole non-streamed upstream answer; images come as base64 inside JSON. */
export const replyBytesMax = 64 * 1024 * 1024;

/** The status line and headers of an upstream's answer. Most servers send no more than 16 KB. */
export const answerHeadBytesMax = 64 * 1024;

/** The line before each chunk of an answer: its length, and perhaps a note, which nobody writes. */
export const chunkLineBytesMax = 4 * 1024;

/** Connections to one provider that wait for the next request: what a busy moment needs again. */
export const idleConnectionsMax = 64;

/**
 * Connections to one provider that were given up before they were open: the system keeps each for
 * some two minutes. A provider that drops whatever is sent to it would take all open files.
 */
export const abandonedConnectionsMax = 256;

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

/** How often a process asks whether keys, tenants, credentials or skills changed elsewhere. */
export const changePollMs = 400;

/** One attempt from its first byte sent to its last received; the longest answers take minutes. */
export const attemptMsMax = 3_600_000;

/** A client that reads nothing for this long is taken for gone. The runtime cannot wait longer. */
export const clientStallMs = 240_000;

/** While the upstream is silent, a streaming client hears from us this often. */
export const keepAliveMs = 15_000;

/** Settled requests waiting for a database that is away. Past this, new work is refused. */
export const unbookedMax = 100_000;

/** Journal bytes on disk while the database is away. Past this, new work is refused. */
export const journalBytesMax = 1024 * 1024 * 1024;

/** How long an answer waits for its line to reach the journal before it is broken off. */
export const journalWaitMs = 5_000;

/** Models at providers that are counted apart; each makes 13 kB of metrics. The rest is `other`. */
export const metricSeriesMax = 1_000;

/**
 * Names of no model that a process keeps for a tenant and a day, and of how many tenants it knows
 * them. Each keeps a row of the daily sums for ever; a person's typing errors are few.
 */
export const unknownModelNamesMax = 100;
export const unknownModelTenantsMax = 1_000;

/** Log lines waiting for a reader that does not read; some 5 MB. Past this, lines are dropped. */
export const requestLinesMax = 10_000;

/** The same of other lines, which are longer and few unless something is wrong; some 1 MB. */
export const logLinesMax = 1_000;

/** Ended requests waiting for a trace collector that is away. Past this, traces are dropped. */
export const tracesWaitingMax = 2_000;

/** Skills a tenant may keep: more than anybody looks through. */
export const skillsPerTenantMax = 100;

/** Skills in one request; with the next line they bound what a prompt can grow by. */
export const skillsPerRequestMax = 10;
export const skillInstructionsMax = 20_000;
export const skillDescriptionMax = 500;

/** Skills kept ready in memory; of the longest ones that is 40 MB. */
export const cachedSkillsMax = 1_000;

/** A search engine's whole answer: 50 KB for each of the twenty results it can have. */
export const searchAnswerBytesMax = 1024 * 1024;

/** One search from question to answer: a model and its client are waiting meanwhile. */
export const searchMsMax = 10_000;

/** Characters and words of one query: Brave and Tavily refuse longer ones. */
export const searchQueryMax = 400;
export const searchTermsMax = 50;

/** The most results that any of the engines gives for one query. */
export const searchResultsMax = 20;

/** Searches beside a client's own calls, kept until the client comes back; oldest go first. */
export const searchNotesLengthMax = 32 * 1024 * 1024;

/** What one search adds to a prompt: about six thousand tokens. */
export const searchTextMax = 24_000;

/** Citations told about one answer. */
export const citationsMax = 200;

/** Minutes; a clock that is set further back was wrong before, and will not catch up soon. */
export const rateWindowsBackMax = 5;

/** How long a request keeps its place in Redis unless its process, which may die, renews it. */
export const slotTtlMs = 30_000;
export const slotRenewMs = 10_000;

/** How long a place that was left may still count, unless the next request tells the others. */
export const slotReleaseMs = 20;

/** Places named in one command: a few hundred keep Redis busy for less than a millisecond. */
export const slotsPerMessage = 500;

/** Requests followed at the same time. Past this, new ones are not traced. */
export const tracesOpenMax = 20_000;

/** The text of one speech job, in characters. */
export const jobTextLengthMax = 200_000;

/** The audio file of one transcription job. */
export const jobFileBytesMax = 500 * 1024 * 1024;

/** The audio that one transcription call takes; longer files are cut. */
export const transcriptionBytesMax = 25 * 1024 * 1024;

/** Addresses in one request: each takes time to check, and a body has room for millions. */
export const addressesMax = 10_000;

/** Jobs of one tenant that are queued or running; the rest is refused until some have ended. */
export const jobsWaitingMax = 10_000;

/** What the inputs of a tenant's jobs may take of the disk together. */
export const jobInputBytesMax = 20 * 1024 * 1024 * 1024;

/** How often a job is tried without any progress before it counts as poison. */
export const jobAttemptsMax = 3;

/** From the first start of a job to its end, whatever its provider does. */
export const jobMsMax = 6 * 3_600_000;

/** A finished output can be fetched for a day; its row stays for a month. */
export const jobOutputMs = 24 * 3_600_000;
export const jobRowMs = 30 * 24 * 3_600_000;

/** Webhooks on their way at once, of all tenants and of one. */
export const concurrentWebhooksMax = 16;
export const webhooksPerTenantMax = 4;

/** How long a receiver of webhooks may take to answer; what it answers is not read. */
export const webhookMsMax = 10_000;

/** Of a form: the headers of a part, their number, and all texts, which are held in memory. */
export const formHeaderBytesMax = 16 * 1024;
export const formPartsMax = 64;
export const formFieldsBytesMax = 1024 * 1024;

/** A client that sends nothing of its body for this long has stalled. */
export const bodyStallMs = 30_000;

/** What is left of a refused body is read this long, so that its sender hears the refusal. */
export const refusedBodyMsMax = 10_000;

/** The slowest pace of a long body, either way: 128 kbit/s, a phone at the edge of its cell. */
export const bodyBytesPerSecondMin = 16 * 1024;

/** Arguments of tool calls that wait for the call before them; 1 MB is a whole file. */
export const bufferedArgumentsMax = 4 * 1024 * 1024;

/** Tool calls of one streamed answer, and the length of their ids and names: both are kept. */
export const toolCallsPerAnswerMax = 1_024;
export const toolCallNamesLengthMax = 4 * 1024 * 1024;

/** Blocks of one upstream answer that are open at the same time; honest ones have one. */
export const openBlocksMax = 64;

/** An answer longer than this is not kept in the response cache: it would push many others out. */
export const cachedLengthMax = 4 * 1024 * 1024;

/** Identical requests that wait for the answer of one; more go on their own. */
export const cacheFollowersMax = 1_000;

/** How long the first result of an idempotency key is given again. */
export const idempotencyTtlMs = 86_400_000;

/** A claim not extended for this long belongs to a process that died. */
export const idempotencyLeaseMs = 30_000;

/** How long an answer waits until the store has it; then it goes out, and is remembered later. */
export const idempotencyWriteMs = 2_000;

/** Answers that wait for a store that is away, together; more are remembered without their text. */
export const unwrittenLengthMax = 64 * 1024 * 1024;

/** How often a repetition looks whether the first one is done. */
export const idempotencyPollMs = 150;

/** Images come as base64; a longer answer is remembered as given, but not kept. */
export const idempotentLengthMax = 32 * 1024 * 1024;

/**
 * Answers under idempotency keys that the store keeps for one tenant: two million short ones a day,
 * or two thousand pictures. Past this, requests with a new key are refused until old ones expire.
 */
export const idempotentBytesPerTenantMax = 4 * 1024 * 1024 * 1024;

/** What a translation leaves out is told by name, in one header that every proxy takes. */
export const foreignNamesMax = 32;

/** Items of one answer that we keep in mind while it is streamed; real ones have a few dozen. */
export const outputItemsMax = 4_096;

/** The last event of a streamed response repeats it whole; pictures in it come as base64. */
export const streamedResponseLengthMax = 32 * 1024 * 1024;

/** Texts of one embeddings request: what OpenAI takes. */
export const embeddingsInputsMax = 2_048;

/** Calls that one embeddings request has under way, where a provider takes few texts at once. */
export const concurrentEmbeddingCalls = 4;

/** A whole image edit with its files. */
export const imageEditBytesMax = 100 * 1024 * 1024;

/** Pictures of one edit: what OpenAI takes. */
export const editImagesMax = 16;

/** One attempt at an image, whatever the provider's timeouts: the slowest take three minutes. */
export const imageAttemptMs = 300_000;

/** Pixels of a mask: above what any model edits; a byte for each is held while it is converted. */
export const maskPixelsMax = 32 * 1024 * 1024;

/** A picture that a provider answers with as an address. */
export const imageBytesMax = 32 * 1024 * 1024;

/** How long finding the length of a recording may take; without it more credits are held. */
export const audioMeasureMs = 500;

/** One attempt at a long recording: providers take a tenth of its length at worst. */
export const transcriptionAttemptMsMax = 900_000;

/** How long a provider may take to count tokens; after that an estimate is the better answer. */
export const countMsMax = 5_000;

/** A provider's count is one number, its refusal one sentence. */
export const countAnswerLengthMax = 16 * 1024;

/** Counts that one tenant has under way at providers, free as they are; more are estimated. */
export const concurrentCountsMax = 32;
