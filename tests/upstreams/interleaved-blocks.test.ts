/**
 * An Anthropic-style upstream that interleaves the deltas of several blocks. Every client receives
 * each block complete and in order.
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

const startOf = ({ kind }: Block, index: number) => ({
  type: 'content_block_start',
  index,
  content_block:
    kind === 'tool' ? { ...kinds.tool.block, id: `toolu_${index}` } : kinds[kind].block,
});

/** Starts all blocks, interleaves their deltas, then stops all blocks. */
function interleave(blocks: readonly Block[], hasStops = true): readonly { type: string }[] {
  const turns = Math.max(...blocks.map(({ pieces }) => pieces.length));
  const deltas = Array.from({ length: turns }, (_, turn) =>
    blocks.flatMap(({ kind, pieces }, index) => {
      const piece = pieces[turn];
      const delta = piece === undefined ? undefined : kinds[kind].delta(piece);
      return delta ? [{ type: 'content_block_delta', index, delta }] : [];
    }),
  );
  const stops = blocks.map((_, index) => ({ type: 'content_block_stop', index }));
  return [...blocks.map(startOf), ...deltas.flat(), ...(hasStops ? stops : [])];
}

/** Returns the events of one block after another, without stop events. */
const withoutStops = (blocks: readonly Block[]) =>
  blocks.flatMap((block, index) => [
    startOf(block, index),
    ...block.pieces.map((piece) => ({
      type: 'content_block_delta',
      index,
      delta: kinds[block.kind].delta(piece),
    })),
  ]);

function script(events: readonly { type: string }[], stop_reason: string): void {
  const usage = { input_tokens: 3, output_tokens: 9 };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'up', content: [] };
  const allEvents = [
    { type: 'message_start', message: { ...message, stop_reason: null, usage } },
    ...events,
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
  const text = allEvents.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  upstream.script('up', replay(text.join(''), { contentType: 'text/event-stream' }));
}

const question = { model: 'acme/claude', messages: [{ role: 'user', content: 'Hello' }] };

async function postMessages(): Promise<readonly string[]> {
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

async function postChat() {
  const answer = await gateway.stream(question);
  const seen = { content: '', reasoning: '', calls: [] as string[], finish: answer.finishReasons };
  for (const { choices } of answer.chunks) {
    for (const { delta } of Array.isArray(choices) ? choices : []) {
      seen.content += delta.content ?? '';
      seen.reasoning += delta.reasoning ?? '';
      for (const call of delta.tool_calls ?? []) {
        seen.calls[call.index] = (seen.calls[call.index] ?? '') + call.function.arguments;
      }
    }
  }
  return seen;
}

interface Item {
  readonly content?: readonly { readonly text: string }[];
  readonly summary?: readonly { readonly text: string }[];
  readonly arguments?: string;
}

/** Returns the items of the last event, and the items joined from the deltas. */
async function postResponses() {
  const body = { model: 'acme/claude', input: 'Hello', stream: true };
  const { text } = await gateway.post(body, { path: '/v1/responses' });
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data));
  const last = events.at(-1);
  const streamed: string[] = [];
  for (const { type, output_index: at, delta } of events) {
    if (type.endsWith('.delta')) streamed[at] = (streamed[at] ?? '') + delta;
  }
  const output: readonly Item[] = last.response.output;
  const final = output.map(({ content, summary, arguments: json }) => {
    const parts = content ?? summary ?? [{ text: json ?? '' }];
    return parts.map((part) => part.text).join('');
  });
  return { end: last.type, streamed, final };
}

const firstText = { kind: 'text', pieces: ['Hel', 'lo ', 'there'] } as const;
const secondText = { kind: 'text', pieces: ['Wor', 'ld'] } as const;
const thinking = { kind: 'thinking', pieces: ['H', 'm', 'm', '.'] } as const;
const firstCall = { kind: 'tool', pieces: ['{"a":', '1', '}'] } as const;
const secondCall = { kind: 'tool', pieces: ['{"b":', '2', ',"c":', '3}'] } as const;

describe.each([
  ['two texts', [firstText, secondText], 'end_turn'],
  ['a text and a call', [firstText, firstCall], 'tool_use'],
  ['a call and a text', [firstCall, firstText], 'tool_use'],
  ['thinking and a text', [thinking, firstText], 'end_turn'],
  ['thinking, a text, and two calls', [thinking, firstText, firstCall, secondCall], 'tool_use'],
] as const)('an Anthropic-style stream with %s', (_, blocks, reason) => {
  const joined = blocks.map(({ pieces }) => pieces.join(''));
  const of = (kind: Kind) =>
    blocks.filter((block) => block.kind === kind).map(({ pieces }) => pieces.join(''));

  describe.each([
    ['interleaved', interleave(blocks)],
    ['interleaved without stop events', interleave(blocks, false)],
    ['in order without stop events', withoutStops(blocks)],
  ])('%s', (_order, events) => {
    beforeEach(() => script(events, reason));

    test('reaches a Messages client complete', async () => {
      expect(await postMessages()).toEqual(joined);
    });

    test('reaches a chat client complete', async () => {
      expect(await postChat()).toEqual({
        content: of('text').join(''),
        reasoning: of('thinking').join(''),
        calls: of('tool'),
        finish: [reason === 'tool_use' ? 'tool_calls' : 'stop'],
      });
    });

    test('reaches a Responses client complete', async () => {
      const { end, streamed, final } = await postResponses();
      // Consecutive texts become one message.
      const items = of('text').length > 1 ? [joined.join('')] : joined;
      expect([end, final, streamed]).toEqual(['response.completed', items, items]);
    });
  });
});
