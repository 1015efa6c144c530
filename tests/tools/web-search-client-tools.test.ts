/** Search results next to a client's own calls. They are added again to its next request. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test';
import { callTools, replay } from '../support/fake-upstream.ts';
import {
  answerRound,
  news,
  searchRound,
  startSearchGateway,
  weather,
} from '../support/search-gateway.ts';

const rig = await startSearchGateway();
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

const later = { title: 'Later', url: 'https://later.example/', snippet: 'It snows.' };
const last = { title: 'Last', url: 'https://last.example/', snippet: 'It thaws.' };

const search = { name: 'web_search', arguments: { query: 'q' }, id: 'call_search' };
const lookup = (id: string) => ({ name: 'lookup', arguments: {}, id });

/** Returns the pages that an answer cites, in order. Stream events may repeat citations. */
const citedIn = (text: string) => {
  // The results of a search, which Messages clients also get, aren't citations.
  const citations = text.replace(/\{"type":"web_search_result",[^}]*\}/g, '');
  return [...new Set([...citations.matchAll(/"url":"(https:[^"]+)"/g)].map(([, url]) => url))];
};

/** How each kind of client declares its tool and sends the results of its calls. */
const clients = [
  {
    path: '/v1/chat/completions',
    own: { type: 'function', function: { name: 'lookup', parameters: {} } },
    requestWith: (calls: readonly string[]) => ({
      messages: [
        ...weather,
        ...calls.flatMap((id) => [
          {
            role: 'assistant',
            content: null,
            tool_calls: [{ id, type: 'function', function: { name: 'lookup', arguments: '{}' } }],
          },
          { role: 'tool', tool_call_id: id, content: 'Found.' },
        ]),
      ],
    }),
  },
  {
    path: '/v1/messages',
    own: { name: 'lookup', input_schema: { type: 'object' } },
    requestWith: (calls: readonly string[]) => ({
      max_tokens: 200,
      messages: [
        ...weather,
        ...calls.flatMap((id) => [
          { role: 'assistant', content: [{ type: 'tool_use', id, name: 'lookup', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'Found.' }] },
        ]),
      ],
    }),
  },
  {
    path: '/v1/responses',
    own: { type: 'function', name: 'lookup', parameters: {} },
    requestWith: (calls: readonly string[]) => ({
      input: [
        ...weather,
        ...calls.flatMap((id) => [
          { type: 'function_call', call_id: id, name: 'lookup', arguments: '{}' },
          { type: 'function_call_output', call_id: id, output: 'Found.' },
        ]),
      ],
    }),
  },
];

const forms = clients.flatMap((client) => [false, true].map((stream) => ({ ...client, stream })));

describe.each(forms)(
  "search results next to a client's call: $path, streaming: $stream",
  (form) => {
    const { path, own, requestWith, stream } = form;
    const callId = (name: string) => `call_${name}_${forms.indexOf(form)}`;
    const send = async (calls: readonly string[], fields: object = requestWith(calls)) => {
      const tools = [{ type: 'web_search' }, own];
      const body = { model: 'test/chat', ...fields, tools, stream };
      const { status, text } = await rig.gateway.post(body, { path });
      expect(status).toBe(200);
      return text;
    };

    test('can be cited in the answer to the result of the call', async () => {
      const id = callId('cited');
      rig.upstream.script('chat', [callTools([search, lookup(id)]), answerRound('It rained [1].')]);
      expect(await send([])).toContain(id);
      expect(citedIn(await send([id]))).toEqual([news.url]);
    });

    test('can be cited if the search came before the call', async () => {
      const id = callId('before');
      const calling = callTools([lookup(id)], { text: 'It rained [1].' });
      rig.upstream.script('chat', [
        ...[searchRound('q'), calling, searchRound('more')],
        answerRound('It snows [2]. As I said, it rained [1].'),
      ]);
      expect(citedIn(await send([]))).toEqual([news.url]);
      rig.engine.answer([later]);
      expect(citedIn(await send([id]))).toEqual([later.url, news.url]);
    });

    test('keep their numbers, and later searches continue the numbering', async () => {
      const [one, two] = [callId('one'), callId('two')];
      rig.upstream.script('chat', [
        callTools([search, lookup(one)]),
        callTools([search, lookup(two)], { text: 'It rained [1], not [2].' }),
        searchRound('more'),
        answerRound('It thaws [3], it snows [2], it rained [1].'),
      ]);
      await send([]);
      rig.engine.answer([later]);
      expect(citedIn(await send([one]))).toEqual([news.url]);
      rig.engine.answer([last]);
      expect(citedIn(await send([one, two]))).toEqual([last.url, later.url, news.url]);
      for (const page of ['[1] The news', '[2] Later', '[3] Last']) {
        expect(rig.lastPrompt().split(page)).toHaveLength(2);
      }
    });

    test('are not restored in another chat with the same call id', async () => {
      const id = 'functions.lookup:0';
      rig.upstream.script('chat', [callTools([search, lookup(id)]), answerRound('It rained [1].')]);
      await send([]);
      const otherChat = JSON.parse(
        JSON.stringify(requestWith([id])).replace('What is the weather?', 'What did they say?'),
      );
      const text = await send([], otherChat);
      expect([citedIn(text), rig.lastPrompt()]).toEqual([
        [],
        expect.not.stringContaining(news.title),
      ]);
    });
  },
);

test.each(['tool_calls', 'length'])(
  'an answer whose call is cut off after a search, with the finish reason %s, ends with max_tokens',
  async (reason) => {
    const chunk = (delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    const half = { index: 0, id: 'call_1', function: { name: 'lookup', arguments: '{"path":"/a' } };
    const events = [chunk({ tool_calls: [half] }), chunk({}, reason), 'data: [DONE]\n\n'];
    const stream = replay(events.join(''), { contentType: 'text/event-stream' });
    rig.upstream.script('chat', [searchRound('q'), stream]);
    const tools = [{ type: 'web_search' }, { name: 'lookup', input_schema: { type: 'object' } }];
    const body = { model: 'test/chat', max_tokens: 200, messages: weather, tools, stream: true };
    const { text } = await rig.gateway.post(body, { path: '/v1/messages' });
    expect(text).toContain('"stop_reason":"max_tokens"');
    expect(text).toEndWith('{"type":"message_stop"}\n\n');
  },
);
