import { useEffect, useRef, useState } from 'preact/hooks';
import { type Answer, chat } from '../chat.ts';
import { useFollow } from '../follow.ts';
import { sentence, useLoad } from '../load.ts';
import { BringCallKey } from '../parts/call-key.tsx';
import { Icon } from '../parts/icon.tsx';
import { ErrorNote, Loading, NoModel } from '../parts/notes.tsx';
import { Page } from '../parts/page.tsx';
import { useSession } from '../session.ts';
import type { ChatBody, Message } from '../snippets.ts';
import { canChat } from './model-sheet.tsx';
import { type CatalogueModel, loadCatalogue } from './models.tsx';
import { Composer, imageBytesIn } from './playground-composer.tsx';
import { CopyAs } from './playground-copy.tsx';
import { Settings, useSettings } from './playground-settings.tsx';
import { type Turn, Turns } from './playground-turns.tsx';

export function Playground() {
  const { callKey } = useSession();
  const loaded = useLoad(`catalogue ${callKey}`, async (signal) => {
    return callKey ? (await loadCatalogue(callKey, signal)).filter(canChat) : undefined;
  });
  const { data } = loaded;
  return (
    <Page title="Playground" lead="Ask any model, and see what each answer took and cost.">
      {!callKey && <BringCallKey what="call models" />}
      {callKey && <Loading of={loaded} what="Fetching the models…" />}
      {callKey && data && <Room models={data} callKey={callKey} />}
    </Page>
  );
}

interface RoomProps {
  readonly models: readonly CatalogueModel[];
  readonly callKey: string;
}

interface Talk {
  readonly turns: readonly Turn[];
  readonly running: boolean;
  readonly error: string | undefined;
  say(message: Message, more?: readonly Message[]): void;
  /** Requests an answer to the last message again. */
  again(): void;
  stop(): void;
  clear(): void;
}

function toMessages(turns: readonly Turn[]): Message[] {
  return turns.filter(({ isLeftOut }) => !isLeftOut).map(({ message }) => message);
}

/** Excludes a failed message from later requests, which would fail because of it. */
function withLastLeftOut(turns: readonly Turn[], isLeftOut: boolean): readonly Turn[] {
  const last = turns.at(-1);
  return last?.message.role === 'user' ? [...turns.slice(0, -1), { ...last, isLeftOut }] : turns;
}

/** Conversations, kept for a user who comes back from a receipt, until the session ends. */
const talks = new WeakMap<object, readonly Turn[]>();

/**
 * The conversation is not in the address: a shared link must not contain what people said to
 * models.
 */
function useTalk(
  callKey: string,
  settings: Omit<ChatBody, 'messages'>,
  opening: readonly Message[],
): Talk {
  const { about } = useSession();
  const [turns, setTurns] = useState<readonly Turn[]>(() => (about && talks.get(about)) ?? []);
  useEffect(() => void (about && talks.set(about, turns)), [turns]);
  const [state, setState] = useState({ running: false, error: undefined as string | undefined });
  const controller = useRef<AbortController>(null);
  useEffect(() => () => controller.current?.abort(), []);
  const answer = async (asked: readonly Turn[]) => {
    controller.current = new AbortController();
    const { signal } = controller.current;
    const show = (got: Answer) => setTurns([...asked, turnOf(got, settings.model)]);
    const body = { ...settings, messages: [...opening, ...toMessages(asked)] };
    setTurns(asked);
    setState({ running: true, error: undefined });
    try {
      show(await chat({ key: callKey, body, signal, onGrowth: show }));
      setState({ running: false, error: undefined });
    } catch (thrown) {
      setState({ running: false, error: signal.aborted ? undefined : sentence(thrown) });
      if (!signal.aborted) setTurns((shown) => withLastLeftOut(shown, true));
    }
  };
  return {
    turns,
    ...state,
    say(message, more = []) {
      void answer([...turns, ...[message, ...more].map((one) => ({ message: one }))]);
    },
    again() {
      const asked = turns.at(-1)?.answer ? turns.slice(0, -1) : turns;
      void answer(withLastLeftOut(asked, false));
    },
    stop: () => controller.current?.abort(),
    clear() {
      setTurns([]);
      setState({ running: false, error: undefined });
    },
  };
}

function turnOf(answer: Answer, model: string): Turn {
  const { text, toolCalls } = answer;
  const message: Message = {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
  return { message, answer, model };
}

function Room({ models, callKey }: RoomProps) {
  const settings = useSettings(models);
  const { system } = settings;
  const opening: Message[] = system === '' ? [] : [{ role: 'system', content: system }];
  const talk = useTalk(callKey, settings.body, opening);
  const section = useFollow();
  const [draft, setDraft] = useState('Hello!');
  const next: Message[] =
    draft.trim() === '' || talk.running ? [] : [{ role: 'user', content: draft }];
  const messages = [...opening, ...toMessages(talk.turns), ...next];
  if (models.length === 0) return <NoModel kind="chat" />;
  return (
    <div class="playground">
      <section ref={section} class="talk" aria-label="Conversation">
        <Turns turns={talk.turns} running={talk.running} onResults={talk.say} />
        <ErrorNote message={talk.error} again={talk.again} />
        <Composer
          earlierBytes={imageBytesIn(toMessages(talk.turns))}
          draft={draft}
          setDraft={setDraft}
          talk={talk}
          takesImages={settings.takesImages}
        />
      </section>
      <aside class="settings" aria-label="Settings">
        <Settings models={models} settings={settings} />
        <CopyAs body={{ ...settings.body, messages }} />
        {talk.turns.length > 0 && (
          <button type="button" class="quiet" onClick={talk.clear} disabled={talk.running}>
            <Icon name="close" />
            Clear the conversation
          </button>
        )}
      </aside>
    </div>
  );
}
