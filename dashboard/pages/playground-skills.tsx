import { useState } from 'preact/hooks';
import { requestData } from '../api.ts';
import { Tick } from '../components/field.tsx';
import { ErrorNote } from '../components/notes.tsx';
import { useLoad } from '../load.ts';
import { addressOf, choose } from '../route.ts';
import { mayDo, useSession } from '../session.ts';
import type { SkillSummary } from '../shapes.ts';

/** Chooses skills for the request. A key that may not list skills gets no choice. */
export function SkillChoice({ chosen }: { readonly chosen: readonly string[] }) {
  const session = useSession();
  // Only the initial state: afterwards the reader opens and closes the section.
  const [isShown] = useState(chosen.length > 0);
  const isOpen = mayDo(session, 'customer');
  const { data, error, reload } = useLoad('skills of the playground', async (signal) => {
    const { key } = session;
    return isOpen ? requestData<SkillSummary[]>('/v1/customer/skills', { key, signal }) : [];
  });
  const known = data ?? [];
  // A skill in the address that has been deleted since can still be unchecked.
  const missing = chosen.filter((name) => data && !known.some((skill) => skill.name === name));
  const names = [...known.map(({ name }) => name), ...missing];
  const describe = (name: string) => known.find((skill) => skill.name === name)?.description;
  const tick = (name: string) => (isOn: boolean) => {
    const others = chosen.filter((one) => one !== name);
    choose({ skills: (isOn ? [...others, name] : others).join(',') }, 'replace');
  };
  if (names.length === 0) return <ErrorNote message={error} again={reload} />;
  return (
    <details open={isShown}>
      <summary>{chosen.length === 0 ? 'Skills' : `Skills (${chosen.length})`}</summary>
      <fieldset class="choices">
        <legend class="unseen">Skills to apply</legend>
        {names.map((name) => (
          <div key={name}>
            <Tick label={name} checked={chosen.includes(name)} onTick={tick(name)} />
            <small class="hint">{describe(name) ?? 'There is no such skill any more.'}</small>
          </div>
        ))}
      </fieldset>
      <p class="hint">
        The gateway adds their instructions to the prompt.{' '}
        <a href={addressOf('skills')}>Read or write them</a>
      </p>
    </details>
  );
}
