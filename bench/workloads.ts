// The requests of the benchmarks. Their bytes are the same on every machine.

/** The gateway's alias for the upstream's only model. */
export const modelAlias = 'bench/chat';

export interface Workload {
  readonly name: string;
  readonly body: string;
  /** Requests per round. */
  readonly requests: number;
  readonly concurrency: number;
  /** The number of units in a request. The cost is reported per unit. */
  readonly unitsPerRequest: number;
  readonly unit: 'request' | 'chunk';
  /** The highest accepted ratio of the gateway's CPU time to the bare proxy's. */
  readonly ratioMax: number;
}

export const chunksPerStream = 200;
/** So long that no read returns two chunks on an idle machine. */
export const chunkSpacingMs = 4;

const instructions = { role: 'system', content: 'You are a helpful assistant.' };
const question = { role: 'user', content: 'Name three rivers that flow into the Black Sea.' };

function chatBody(messages: readonly object[], more: object = {}): string {
  return JSON.stringify({ model: modelAlias, messages, temperature: 0.7, ...more });
}

const vocabularyText =
  'the river carries its water from the hills through old towns to a wide and quiet sea where ' +
  'ships wait for the morning and people on the shore count them one by one before they go home';

/** Returns English-like prose of `length` characters with line breaks and quotes. */
export function prose(length: number): string {
  const vocabulary = vocabularyText.split(' ');
  let seed = 1;
  // A linear congruential generator returns the same text in every run.
  const random = (count: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * count);
  };
  let text = '';
  for (let sentence = 1; text.length < length; sentence += 1) {
    const picked = Array.from(
      { length: 6 + random(12) },
      () => vocabulary[random(vocabulary.length)],
    );
    const clause = picked.join(' ');
    const end = sentence % 6 === 0 ? '.\n\n' : '. ';
    text += sentence % 9 === 0 ? `"${clause}", they say${end}` : `So ${clause}${end}`;
  }
  return text.slice(0, length);
}

export const workloads: readonly Workload[] = [
  {
    name: 'small request',
    body: chatBody([instructions, question], { max_tokens: 100 }),
    requests: 8_000,
    concurrency: 32,
    unitsPerRequest: 1,
    unit: 'request',
    ratioMax: 1.6,
  },
  {
    name: `stream of ${chunksPerStream} chunks`,
    body: chatBody([instructions, question], {
      stream: true,
      stream_options: { include_usage: true },
    }),
    requests: 128,
    concurrency: 32,
    unitsPerRequest: chunksPerStream,
    unit: 'chunk',
    ratioMax: 1.6,
  },
  {
    name: '100 KB prompt',
    body: chatBody([instructions, { role: 'user', content: prose(100 * 1024) }]),
    requests: 2_500,
    concurrency: 16,
    unitsPerRequest: 1,
    unit: 'request',
    ratioMax: 1.5,
  },
];
