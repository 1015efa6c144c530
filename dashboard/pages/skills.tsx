import { useState } from 'preact/hooks';
import { requestData, requestJson } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { Confirm, Dialog } from '../components/dialog.tsx';
import { Badge, Empty, Loading } from '../components/feedback.tsx';
import { AreaField, Form, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { Card, Page } from '../components/page.tsx';
import { RowAction } from '../components/row-action.tsx';
import { type Column, Table } from '../components/table.tsx';
import { useAction, useLoad } from '../load.ts';
import { closeOverlay, openOverlay, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { Skill, SkillSummary } from '../shapes.ts';
import { curl } from '../snippets.ts';

const pathOf = (name: string) => `/v1/customer/skills/${encodeURIComponent(name)}`;

export function Skills() {
  const { key } = useSession();
  const { query } = useRoute();
  const loaded = useLoad('skills', (signal) =>
    requestData<SkillSummary[]>('/v1/customer/skills', { key, signal }),
  );
  const { data, reload } = loaded;
  const [deleting, setDeleting] = useState<SkillSummary>();
  const open = query.get('skill');
  const close = () => closeOverlay('skill');
  return (
    <Page
      title="Skills"
      lead="Reusable instructions. If a request names a skill, the gateway adds it to the prompt."
      actions={<AddButton text="Create a skill" onClick={() => openOverlay({ skill: ' ' })} />}
    >
      <Loading loaded={loaded} text="Loading skills…" />
      {data && <List skills={data} onDelete={setDeleting} />}
      {open !== null && (
        <Editor
          name={open.trim()}
          onDone={() => {
            close();
            reload();
          }}
          onClose={close}
        />
      )}
      {deleting && (
        <Confirm
          title={`Delete the skill ${deleting.name}?`}
          confirmLabel="Delete"
          onClose={() => setDeleting(undefined)}
          work={async () => {
            await requestJson(pathOf(deleting.name), { key, method: 'DELETE' });
            setDeleting(undefined);
            reload();
          }}
        >
          <p>Requests that name it will fail, unless a built-in skill has the same name.</p>
        </Confirm>
      )}
    </Page>
  );
}

interface ListProps {
  readonly skills: readonly SkillSummary[];
  readonly onDelete: (skill: SkillSummary) => void;
}

function List({ skills, onDelete }: ListProps) {
  if (skills.length === 0) {
    const body = { description: 'Answers briefly', instructions: 'Answer in one sentence.' };
    return <Empty title="No skills yet" curl={curl('PUT', pathOf('brief'), body)} />;
  }
  const columns: Column<SkillSummary>[] = [
    {
      title: 'Skill',
      isHead: true,
      cell: ({ name, source }) => (
        <span class="two-lines">
          <button type="button" class="link strong" onClick={() => openOverlay({ skill: name })}>
            {name}
          </button>
          {source === 'built_in' && <Badge>built-in</Badge>}
        </span>
      ),
    },
    { title: 'Description', cell: ({ description }) => description },
    {
      title: 'Actions',
      cell: (skill) => <RowActions skill={skill} onDelete={() => onDelete(skill)} />,
    },
  ];
  return (
    <Card>
      <Table label="Skills" columns={columns} rows={skills} rowKey={({ name }) => name} />
    </Card>
  );
}

interface RowActionsProps {
  readonly skill: SkillSummary;
  readonly onDelete: () => void;
}

function RowActions({ skill: { name, source }, onDelete }: RowActionsProps) {
  const editLabel = source === 'built_in' ? 'Replace' : 'Edit';
  return (
    <span class="row-actions">
      <RowAction
        text={editLabel}
        label={`${editLabel} ${name}`}
        onClick={() => openOverlay({ skill: name })}
      />
      {source === 'customer' && (
        <RowAction text="Delete" label={`Delete ${name}`} onClick={onDelete} />
      )}
    </span>
  );
}

interface EditorProps {
  /** '' for a new skill. */
  readonly name: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function Editor(props: EditorProps) {
  const { key } = useSession();
  const { name, onClose } = props;
  const loaded = useLoad(`skill ${name}`, async (signal) => {
    if (name === '') return { description: '', instructions: '' };
    return requestData<Skill>(pathOf(name), { key, signal });
  });
  return (
    <Dialog title={name === '' ? 'Create a skill' : `Skill ${name}`} onClose={onClose}>
      <Loading loaded={loaded} text="Loading skill…" />
      {loaded.data && <Fields {...props} current={loaded.data} />}
    </Dialog>
  );
}

type FieldsProps = EditorProps & { current: Pick<Skill, 'description' | 'instructions'> };

function Fields({ name, current, onDone, onClose }: FieldsProps) {
  const { key } = useSession();
  const [title, setTitle] = useState(name);
  const [description, setDescription] = useState(current.description);
  const [instructions, setInstructions] = useState(current.instructions);
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const body = { description, instructions };
      await requestJson(pathOf(title.trim()), { key, method: 'PUT', body });
      onDone();
    });
  return (
    <Form onSubmit={submit}>
      {name === '' && (
        <TextField
          label="Name"
          placeholder="brief-answers"
          value={title}
          onValue={setTitle}
          required
        />
      )}
      <TextField label="Description" value={description} onValue={setDescription} required />
      <AreaField
        label="Instructions (Markdown)"
        rows={10}
        value={instructions}
        onValue={setInstructions}
      />
      <FormEnd submitLabel="Save" action={action} onClose={onClose} />
    </Form>
  );
}
