import { useEffect, useRef, useState } from 'preact/hooks';
import { type Answer, chat } from '../chat.ts';
import { BringCallKey } from '../components/call-key.tsx';
import { Icon } from '../components/icon.tsx';
import { ErrorNote, Loading, NoModel } from '../components/notes.tsx';
import { Page } from '../components/page.tsx';
import { useFollow } from '../follow.ts';
import { sentence, useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { ChatBody, Message } from '../snippets.ts';
import { canChat } from './model-sheet.tsx';
import { type CatalogModel, loadCatalog } from './models.tsx';
import { Composer, imageBytesIn } from './playground-composer.tsx';
import { CopyAs } from './playground-copy.tsx';
import { Settings, useSettings } from './playground-settings.tsx';
import { type Turn, Turns } from './playground-turns.tsx';

export function Playground() {
  const { callKey } = useSession();
  const loaded = useLoad(`catalogue ${callKey}`, async (signal) => {
    return callKey ? (await loadCatalog(callKey, signal)).filter(canChat) : undefined;
  });
  const { data } = loaded;
  return (
    <Page title="Playground" lead="Ask any model, and see what each answer took and cost.">
      {!callKey && <BringCallKey what="call models" />}
      {callKey && <Loading of={loaded} what="Fetching the models…" />}
      {callKey && data && <PlaygroundPanel models={data} callKey={callKey} />}
    </Page>
  );
}

interface PlaygroundPanelProps {
  readonly models: readonly CatalogModel[];
  readonly callKey: string;
}

interface Conversation {
  readonly turns: readonly Turn[];
  readonly running: boolean;
  readonly error: string | undefined;
  sendMessage(message: Message, more?: readonly Message[]): void;
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
const conversations = new WeakMap<object, readonly Turn[]>();

/**
 * The conversation is not in the address: a shared link must not contain what people said to
 * models.
 */
function useConversation(
  callKey: string,
  settings: Omit<ChatBody, 'messages'>,
  opening: readonly Message[],
): Conversation {
  const { about } = useSession();
  const [turns, setTurns] = useState<readonly Turn[]>(
    () => (about && conversations.get(about)) ?? [],
  );
  useEffect(() => void (about && conversations.set(about, turns)), [turns]);
  const [state, setState] = useState({ running: false, error: undefined as string | undefined });
  const controller = useRef<AbortController>(null);
  useEffect(() => () => controller.current?.abort(), []);
  const answer = async (sentTurns: readonly Turn[]) => {
    controller.current = new AbortController();
    const { signal } = controller.current;
    const show = (update: Answer) => setTurns([...sentTurns, turnOf(update, settings.model)]);
    const body = { ...settings, messages: [...opening, ...toMessages(sentTurns)] };
    setTurns(sentTurns);
    setState({ running: true, error: undefined });
    try {
      show(await chat({ key: callKey, body, signal, onUpdate: show }));
      setState({ running: false, error: undefined });
    } catch (error) {
      setState({ running: false, error: signal.aborted ? undefined : sentence(error) });
      if (!signal.aborted) setTurns((shown) => withLastLeftOut(shown, true));
    }
  };
  return {
    turns,
    ...state,
    sendMessage(message, more = []) {
      void answer([...turns, ...[message, ...more].map((one) => ({ message: one }))]);
    },
    again() {
      const sentTurns = turns.at(-1)?.answer ? turns.slice(0, -1) : turns;
      void answer(withLastLeftOut(sentTurns, false));
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

function PlaygroundPanel({ models, callKey }: PlaygroundPanelProps) {
  const settings = useSettings(models);
  const { system } = settings;
  const opening: Message[] = system === '' ? [] : [{ role: 'system', content: system }];
  const conversation = useConversation(callKey, settings.body, opening);
  const section = useFollow();
  const [draft, setDraft] = useState('Hello!');
  const next: Message[] =
    draft.trim() === '' || conversation.running ? [] : [{ role: 'user', content: draft }];
  const messages = [...opening, ...toMessages(conversation.turns), ...next];
  if (models.length === 0) return <NoModel kind="chat" />;
  return (
    <div class="playground">
      <section ref={section} class="talk" aria-label="Conversation">
        <Turns
          turns={conversation.turns}
          running={conversation.running}
          onResults={conversation.sendMessage}
        />
        <ErrorNote message={conversation.error} again={conversation.again} />
        <Composer
          earlierBytes={imageBytesIn(toMessages(conversation.turns))}
          draft={draft}
          setDraft={setDraft}
          conversation={conversation}
          takesImages={settings.takesImages}
        />
      </section>
      <aside class="settings" aria-label="Settings">
        <Settings models={models} settings={settings} />
        <CopyAs body={{ ...settings.body, messages }} />
        {conversation.turns.length > 0 && (
          <button
            type="button"
            class="quiet"
            onClick={conversation.clear}
            disabled={conversation.running}
          >
            <Icon name="close" />
            Clear the conversation
          </button>
        )}
      </aside>
    </div>
  );
}
