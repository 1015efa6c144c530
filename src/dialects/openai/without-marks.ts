/** Takes Anthropic's cache marks out of a request to a vendor that refuses them. */
import { type Fields, isObject } from '../../core/json.ts';
import { exactWords } from '../ask/body/exact-body.ts';
import { sameIfUnchanged } from '../ask/body/same-list.ts';
import type { Worded } from './chat-request.ts';

type Unmark = (value: unknown) => unknown;

/**
 * Takes the mark off an object, or off each in a list, and off what it has under names of `inside`.
 */
function unmarking(inside: Readonly<Record<string, Unmark>> = {}): Unmark {
  const unmark: Unmark = (value) => {
    if (Array.isArray(value)) return sameIfUnchanged(value, value.map(unmark));
    if (!isObject(value)) return value;
    let bare = 'cache_control' in value ? withoutMark(value) : value;
    for (const [name, unmarkInner] of Object.entries(inside)) {
      const kept = unmarkInner(bare[name]);
      if (kept !== bare[name]) bare = { ...bare, [name]: kept };
    }
    return bare;
  };
  return unmark;
}

function withoutMark({ cache_control: _, ...bare }: Fields): Fields {
  return bare;
}

const unmarkAll = unmarking({
  messages: unmarking({ content: unmarking(), tool_calls: unmarking() }),
  tools: unmarking({ function: unmarking(), custom: unmarking() }),
});

/** The very same request where neither the body nor anything in it is marked. */
export function withoutMarks(request: Worded): Worded {
  const { body, source } = request;
  if (unmarkAll(body) === body) return request;
  const bare = unmarkAll(exactWords(body, source)) as Worded['body'];
  return { ...request, body: bare, source: null };
}
