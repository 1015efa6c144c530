import { useState } from 'preact/hooks';
import { requestData } from '../api.ts';
import { ErrorNote } from '../components/feedback.tsx';
import { Checkbox } from '../components/field.tsx';
import { useLoad } from '../load.ts';
import { setQuery, urlFor } from '../route.ts';
import { hasScope, useSession } from '../session.ts';
import type { SkillSummary } from '../shapes.ts';

/** Selects the skills of the request. Hidden if the key can't list skills. */
export function SkillChoice({ chosen }: { readonly chosen: readonly string[] }) {
  const session = useSession();
  // Only the initial state; afterwards, the user opens and closes the section.
  const [isInitiallyOpen] = useState(chosen.length > 0);
  const canList = hasScope(session, 'customer');
  const { data, error, reload } = useLoad('skills of the playground', async (signal) => {
    const { key } = session;
    return canList ? requestData<SkillSummary[]>('/v1/customer/skills', { key, signal }) : [];
  });
  const skills = data ?? [];
  // Show skills from the URL even after they were deleted, so that the user can uncheck them.
  const missing = chosen.filter((name) => data && !skills.some((skill) => skill.name === name));
  const names = [...skills.map(({ name }) => name), ...missing];
  const describe = (name: string) => skills.find((skill) => skill.name === name)?.description;
  const toggle = (name: string) => (isOn: boolean) => {
    const others = chosen.filter((one) => one !== name);
    setQuery({ skills: (isOn ? [...others, name] : others).join(',') }, 'replace');
  };
  if (names.length === 0) return <ErrorNote message={error} onRetry={reload} />;
  return (
    <details open={isInitiallyOpen}>
      <summary>{chosen.length === 0 ? 'Skills' : `Skills (${chosen.length})`}</summary>
      <fieldset class="choices">
        <legend class="visually-hidden">Skills to apply</legend>
        {names.map((name) => (
          <div key={name}>
            <Checkbox label={name} checked={chosen.includes(name)} onChange={toggle(name)} />
            <small class="hint">{describe(name) ?? 'This skill no longer exists.'}</small>
          </div>
        ))}
      </fieldset>
      <p class="hint">
        The gateway adds the instructions of the selected skills to the prompt.{' '}
        <a href={urlFor('skills')}>Manage skills</a>
      </p>
    </details>
  );
}
