import { describe, expect, test } from 'bun:test';
import type { AssistantPart, Prompt, Turn } from '../core/prompt.ts';
import { type SearchNote, SearchNotes } from './search-notes.ts';

function noteOf(text: string): SearchNote {
  const parts = [{ kind: 'text' as const, text }];
  return {
    toolName: 'web_search',
    calls: [{ id: 'ours', arguments: '{"query":"q"}' }],
    results: [{ kind: 'tool_result', callId: 'ours', parts, isError: false }],
    pages: [],
  };
}

const callOf = (id: string, json = '{}') => ({ id, name: 'lookup', arguments: json });

/** A client's first request. */
function asking(text = 'What is new?', cacheControl?: object): Prompt {
  const parts = [{ kind: 'text', text, cacheControl }];
  return { turns: [{ role: 'user', parts }] } as unknown as Prompt;
}

/** The client's next request, with the result of its own call. */
function returning(callId: string, json = '{}', requested = asking()): Prompt {
  const call: AssistantPart = { kind: 'tool_call', ...callOf(callId, json) };
  const turns: Turn[] = [
    ...requested.turns,
    { role: 'assistant', parts: [call] },
    { role: 'user', parts: [{ kind: 'tool_result', callId, parts: [], isError: false }] },
  ];
  return { turns } as unknown as Prompt;
}

const isRestored = (notes: SearchNotes, callId: string, tenantId = 't') =>
  JSON.stringify(notes.restore(tenantId, returning(callId))).includes('"ours"');

describe('SearchNotes', () => {
  test("restores searches next to the client's call and before its result", () => {
    const notes = new SearchNotes();
    notes.store('t', asking(), [callOf('theirs')], noteOf('found'));
    const [, assistant, user] = notes.restore('t', returning('theirs')).prompt.turns;
    expect(assistant?.parts.map((part) => 'id' in part && part.id)).toEqual(['theirs', 'ours']);
    expect(user?.parts.map((part) => 'callId' in part && part.callId)).toEqual(['ours', 'theirs']);
  });

  test('does not restore notes of another tenant', () => {
    const notes = new SearchNotes();
    notes.store('t', asking(), [callOf('theirs')], noteOf('secret'));
    const stranger = returning('theirs');
    expect(notes.restore('u', stranger).prompt).toBe(stranger);
  });

  test('does not restore notes of another chat with the same call IDs', () => {
    const notes = new SearchNotes();
    const id = 'functions.lookup:0';
    for (const of of ['Ann', 'Bob']) {
      notes.store(
        't',
        asking(),
        [callOf(id, `{"of":"${of}", "from":1.0}`)],
        noteOf(`found for ${of}`),
      );
    }
    for (const of of ['Ann', 'Bob']) {
      const { turns } = notes.restore('t', returning(id, `{"of":"${of}","from":1}`)).prompt;
      expect(JSON.stringify(turns).match(/found for \w+/g)).toEqual([`found for ${of}`]);
    }
    for (const json of ['{"of":"Cid"}', '['.repeat(1e6) + ']'.repeat(1e6)]) {
      const other = returning(id, json);
      expect(notes.restore('t', other).prompt).toBe(other);
    }
  });

  test('does not restore notes of another question with identical calls', () => {
    const notes = new SearchNotes();
    const id = 'functions.lookup:1';
    const requested = (name: string, mark?: object) =>
      returning('functions.lookup:0', '{}', asking(`Who is ${name}?`, mark));
    for (const name of ['Ann', 'Bob']) {
      notes.store('t', requested(name), [callOf(id)], noteOf(`found for ${name}`));
    }
    const foundFor = (name: string) => {
      const returned = returning(id, '{}', requested(name, { type: 'ephemeral' }));
      return JSON.stringify(notes.restore('t', returned)).match(/found for \w+/g);
    };
    expect(['Ann', 'Bob', 'Cid'].map(foundFor)).toEqual([
      ['found for Ann'],
      ['found for Bob'],
      null,
    ]);
  });

  test('drops the oldest notes if they exceed the limit', () => {
    const notes = new SearchNotes(3_300);
    for (const id of ['1', '2', '3', '4'])
      notes.store('t', asking(), [callOf(id)], noteOf('x'.repeat(800)));
    expect(['1', '2', '3', '4'].filter((id) => isRestored(notes, id))).toEqual(['2', '3', '4']);
    notes.store('t', asking(), [callOf('huge')], noteOf('x'.repeat(3_300)));
    expect(['2', '3', '4', 'huge'].filter((id) => isRestored(notes, id))).toEqual([]);
  });

  test('counts a note only once if it is stored again', () => {
    const notes = new SearchNotes(3_000);
    notes.store('t', asking(), [callOf('other')], noteOf('x'.repeat(800)));
    for (let time = 0; time < 5; time++)
      notes.store('t', asking(), [callOf('a')], noteOf('x'.repeat(800)));
    expect(['other', 'a'].filter((id) => isRestored(notes, id))).toEqual(['other', 'a']);
  });
});
