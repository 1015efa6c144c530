/**
 * An upstream of Anthropic's kind that sends the pieces of several blocks in turn. Whatever the
 * client speaks, each block arrives whole, and none of them ends where another one goes on.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { checkAnthropicStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    providers: { claude: { dialect: 'anthropic', base_url: upstream.url, api_key: 'key' } },
    models: [chatModel('acme/claude', [{ provider: 'claude', model: 'up' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const kinds = {
  text: {
    block: { type: 'text', text: '' },
    delta: (text: string) => ({ type: 'text_delta', text }),
  },
  thinking: {
    block: { type: 'thinking', thinking: '', signature: '' },
    delta: (thinking: string) => ({ type: 'thinking_delta', thinking }),
  },
  tool: {
    block: { type: 'tool_use', id: 'toolu_x', name: 'look', input: {} },
    delta: (partial_json: string) => ({ type: 'input_json_delta', partial_json }),
  },
};
type Kind = keyof typeof kinds;

interface Block {
  readonly kind: Kind;
  readonly pieces: readonly string[];
}

const openingOf = ({ kind }: Block, index: number) => ({
  type: 'content_block_start',
  index,
  content_block:
    kind === 'tool' ? { ...kinds.tool.block, id: `toolu_${index}` } : kinds[kind].block,
});

/** All blocks begin, then each says a piece in its turn, then all end. */
function mixed(blocks: readonly Block[], saysStops = true): readonly { type: string }[] {
  const turns = Math.max(...blocks.map(({ pieces }) => pieces.length));
  const deltas = Array.from({ length: turns }, (_, turn) =>
    blocks.flatMap(({ kind, pieces }, index) => {
      const piece = pieces[turn];
      const delta = piece === undefined ? undefined : kinds[kind].delta(piece);
      return delta ? [{ type: 'content_block_delta', index, delta }] : [];
    }),
  );
  const stops = blocks.map((_, index) => ({ type: 'content_block_stop', index }));
  return [...blocks.map(openingOf), ...deltas.flat(), ...(saysStops ? stops : [])];
}

/** One block after the other, with all their beginnings and no end. */
const endless = (blocks: readonly Block[]) =>
  blocks.flatMap((block, index) => [
    openingOf(block, index),
    ...block.pieces.map((piece) => ({
      type: 'content_block_delta',
      index,
      delta: kinds[block.kind].delta(piece),
    })),
  ]);

function script(events: readonly { type: string }[], stop_reason: string): void {
  const usage = { input_tokens: 3, output_tokens: 9 };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'up', content: [] };
  const all = [
    { type: 'message_start', message: { ...message, stop_reason: null, usage } },
    ...events,
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
  const text = all.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  upstream.script('up', replay(text.join(''), { contentType: 'text/event-stream' }));
}

const question = { model: 'acme/claude', messages: [{ role: 'user', content: 'Hello' }] };

async function askMessages(): Promise<readonly string[]> {
  const body = { ...question, stream: true, max_tokens: 50 };
  const { text } = await gateway.post(body, { path: '/v1/messages' });
  checkAnthropicStream(text);
  const blocks: string[] = [];
  for (const [, data = ''] of text.matchAll(/^data: (.*)$/gm)) {
    const { type, index, delta } = JSON.parse(data);
    if (type === 'content_block_start') blocks[index] = '';
    if (type !== 'content_block_delta') continue;
    blocks[index] += delta.text ?? delta.thinking ?? delta.partial_json ?? '';
  }
  return blocks;
}

async function askChat() {
  const heard = await gateway.stream(question);
  const told = { content: '', reasoning: '', calls: [] as string[], finish: heard.finishReasons };
  for (const { choices } of heard.chunks) {
    for (const { delta } of Array.isArray(choices) ? choices : []) {
      told.content += delta.content ?? '';
      told.reasoning += delta.reasoning ?? '';
      for (const call of delta.tool_calls ?? []) {
        told.calls[call.index] = (told.calls[call.index] ?? '') + call.function.arguments;
      }
    }
  }
  return told;
}

interface Item {
  readonly content?: readonly { readonly text: string }[];
  readonly summary?: readonly { readonly text: string }[];
  readonly arguments?: string;
}

/** The items of the last event, which is the whole answer, and the places that events told of. */
async function askResponses() {
  const body = { model: 'acme/claude', input: 'Hello', stream: true };
  const { text } = await gateway.post(body, { path: '/v1/responses' });
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data));
  const last = events.at(-1);
  const streamed: string[] = [];
  for (const { type, output_index: at, delta } of events) {
    if (type.endsWith('.delta')) streamed[at] = (streamed[at] ?? '') + delta;
  }
  const output: readonly Item[] = last.response.output;
  const whole = output.map(({ content, summary, arguments: json }) => {
    const parts = content ?? summary ?? [{ text: json ?? '' }];
    return parts.map((part) => part.text).join('');
  });
  return { end: last.type, streamed, whole };
}

const words = { kind: 'text', pieces: ['Hel', 'lo ', 'there'] } as const;
const more = { kind: 'text', pieces: ['Wor', 'ld'] } as const;
const thought = { kind: 'thinking', pieces: ['H', 'm', 'm', '.'] } as const;
const call = { kind: 'tool', pieces: ['{"a":', '1', '}'] } as const;
const other = { kind: 'tool', pieces: ['{"b":', '2', ',"c":', '3}'] } as const;

describe.each([
  ['two texts', [words, more], 'end_turn'],
  ['a text and a call', [words, call], 'tool_use'],
  ['a call and a text', [call, words], 'tool_use'],
  ['a thought and a text', [thought, words], 'end_turn'],
  ['a thought, a text and two calls', [thought, words, call, other], 'tool_use'],
] as const)('%s', (_, blocks, reason) => {
  const joined = blocks.map(({ pieces }) => pieces.join(''));
  const of = (kind: Kind) =>
    blocks.filter((block) => block.kind === kind).map(({ pieces }) => pieces.join(''));

  describe.each([
    ['in turn', mixed(blocks)],
    ['in turn, with no end', mixed(blocks, false)],
    ['one by one, with no end', endless(blocks)],
  ])('%s', (_how, events) => {
    beforeEach(() => script(events, reason));

    test('in messages', async () => {
      expect(await askMessages()).toEqual(joined);
    });

    test('in a chat', async () => {
      expect(await askChat()).toEqual({
        content: of('text').join(''),
        reasoning: of('thinking').join(''),
        calls: of('tool'),
        finish: [reason === 'tool_use' ? 'tool_calls' : 'stop'],
      });
    });

    test('in responses', async () => {
      const { end, streamed, whole } = await askResponses();
      // Texts in a row are one message.
      const items = of('text').length > 1 ? [joined.join('')] : joined;
      expect([end, whole, streamed]).toEqual(['response.completed', items, items]);
    });
  });
});
