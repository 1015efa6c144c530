/** What the benches send, the same bytes on every machine. */

/** The gateway's alias for the upstream's only model. */
export const modelAlias = 'bench/chat';

export interface Workload {
  readonly name: string;
  readonly body: string;
  /** Requests of one round. */
  readonly requests: number;
  readonly concurrency: number;
  /** The cost of a request is divided by this number of parts. */
  readonly partsPerRequest: number;
  readonly part: 'request' | 'chunk';
  /** The gateway may take at most this many times the bare proxy's CPU time. */
  readonly ratioMax: number;
}

export const chunksPerStream = 200;
/** Long enough that two chunks never arrive in one read on an idle machine. */
export const chunkSpacingMs = 4;

const instructions = { role: 'system', content: 'You are a helpful assistant.' };
const question = { role: 'user', content: 'Name three rivers that flow into the Black Sea.' };

function chatBody(messages: readonly object[], more: object = {}): string {
  return JSON.stringify({ model: modelAlias, messages, temperature: 0.7, ...more });
}

const words =
  'the river carries its water from the hills through old towns to a wide and quiet sea where ' +
  'ships wait for the morning and people on the shore count them one by one before they go home';

/** English-like prose of about `length` characters, with the line ends and quotes that text has. */
export function prose(length: number): string {
  const vocabulary = words.split(' ');
  let seed = 1;
  // A linear congruential generator: the same text in every run, without a stored file.
  const draw = (count: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * count);
  };
  let text = '';
  for (let sentence = 1; text.length < length; sentence += 1) {
    const picked = Array.from({ length: 6 + draw(12) }, () => vocabulary[draw(vocabulary.length)]);
    const said = picked.join(' ');
    const end = sentence % 6 === 0 ? '.\n\n' : '. ';
    text += sentence % 9 === 0 ? `"${said}", they say${end}` : `So ${said}${end}`;
  }
  return text.slice(0, length);
}

export const workloads: readonly Workload[] = [
  {
    name: 'small request',
    body: chatBody([instructions, question], { max_tokens: 100 }),
    requests: 8_000,
    concurrency: 32,
    partsPerRequest: 1,
    part: 'request',
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
    partsPerRequest: chunksPerStream,
    part: 'chunk',
    ratioMax: 1.6,
  },
  {
    name: '100 KB prompt',
    body: chatBody([instructions, { role: 'user', content: prose(100 * 1024) }]),
    requests: 2_500,
    concurrency: 16,
    partsPerRequest: 1,
    part: 'request',
    ratioMax: 1.5,
  },
];
