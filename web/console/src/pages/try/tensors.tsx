// A form made of a model's signature, and what the model answers.

import {useEffect, useRef, useState} from 'preact/hooks';
import {errorText, getJson, postJson} from '../../lib/api';
import {show} from '../../lib/format';
import {closed, elements, fromDrawing, fromFile, fromImage, imageLayout, isText, parse, random, type Spec} from '../../lib/tensors';
import {Card, Problem, useLoad} from '../../parts/common';
import {Snippets} from '../../parts/snippets';
import {modelPath, type Metadata} from '../model';

interface Field { spec: Spec; shape: number[]; text: string; skipped: boolean }
interface Output { name: string; datatype: string; shape: number[]; data: unknown[] }
interface Reply { outputs: Output[]; model_version?: string }

function Pad({side, onData}: {side: number; onData: (data: number[]) => void}) {
  const canvas = useRef<HTMLCanvasElement>(null), last = useRef<[number, number] | null>(null);
  const SIZE = 224;
  const emit = () => onData(fromDrawing(canvas.current!.getContext('2d')!.getImageData(0, 0, SIZE, SIZE).data, SIZE, side));
  const point = (e: PointerEvent): [number, number] => {
    const box = canvas.current!.getBoundingClientRect();
    return [((e.clientX - box.left) * SIZE) / box.width, ((e.clientY - box.top) * SIZE) / box.height];
  };
  const line = (to: [number, number]) => {
    const g = canvas.current!.getContext('2d')!, from = last.current ?? to;
    g.lineWidth = 26, g.lineCap = g.lineJoin = 'round', g.strokeStyle = getComputedStyle(canvas.current!).color;
    g.beginPath(), g.moveTo(...from), g.lineTo(to[0] + 0.01, to[1]), g.stroke();
    last.current = to;
  };
  const clear = () => { canvas.current!.getContext('2d')!.clearRect(0, 0, SIZE, SIZE); emit(); };
  return (
    <div class="pad">
      <canvas ref={canvas} width={SIZE} height={SIZE} role="img" aria-label="Draw here with a pointer; without one, use random values or write the numbers"
        onPointerDown={(e) => { canvas.current!.setPointerCapture(e.pointerId); last.current = null; line(point(e)); }}
        onPointerMove={(e) => { if (e.buttons) line(point(e)); }} onPointerUp={() => { last.current = null; emit(); }} />
      <button type="button" class="quiet" onClick={clear}>Clear the drawing</button>
    </div>
  );
}

function Pixels({values, layout}: {values: unknown[]; layout: {width: number; height: number}}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const c = canvas.current!, g = c.getContext('2d')!, n = layout.width * layout.height, top = Math.max(...(values.slice(0, n) as number[]).map(Number), 1e-9);
    c.width = layout.width, c.height = layout.height;
    const image = g.createImageData(layout.width, layout.height);
    for (let i = 0; i < n; ++i) {
      const v = 255 - Math.round((255 * Number(values[i] ?? 0)) / top);
      image.data.set([v, v, v, 255], 4 * i);
    }
    g.putImageData(image, 0, 0);
  }, [values]);
  return <canvas class="pixels" ref={canvas} role="img" aria-label="The first row as an image" />;
}

function Input({field, set}: {field: Field; set: (f: Field) => void}) {
  const {spec, shape} = field, [error, setError] = useState('');
  const layout = isText(spec.datatype) ? undefined : imageLayout(shape), whole = !spec.datatype.startsWith('FP') && spec.datatype !== 'BF16';
  const square = layout && layout.channels === 1 && layout.width === layout.height && layout.width <= 64 ? layout.width : 0;
  let values: unknown[] = [];
  try { values = parse(field.text, spec.datatype); } catch { /* said when it is sent */ }
  const put = (data: unknown[], to = shape) => { setError(''); set({...field, shape: to, text: isText(spec.datatype) ? (data as string[]).join('\n') : data.length > 64 ? JSON.stringify(data) : data.join(' ')}); };
  const take = async (file: File | undefined) => {
    if (!file) return;
    try {
      if (file.type.startsWith('image/')) return put(await fromImage(file, shape, whole));
      const read = await fromFile(file, spec.datatype);
      put(read.data, read.shape && read.shape.length === shape.length ? read.shape : shape);
    } catch (problem) { setError(errorText(problem)); }
  };
  return (
    <fieldset onDragOver={(e) => e.preventDefault()} onDrop={(e) => { e.preventDefault(); void take(e.dataTransfer?.files[0]); }}>
      <legend><code>{spec.name}</code> <span class="note">{spec.datatype} [{spec.shape.join(', ')}]</span>
        {spec.optional && <label class="note"> <input type="checkbox" checked={!field.skipped} onChange={(e) => set({...field, skipped: !e.currentTarget.checked})} /> send</label>}</legend>
      {!field.skipped && <>
        <div class="row">
          <label>Shape <input size={14} value={shape.join(', ')} onChange={(e) => set({...field, shape: e.currentTarget.value.split(/[\s,x]+/).filter(Boolean).map(Number)})} /></label>
          <button type="button" onClick={() => put(random({datatype: spec.datatype, shape}))}>Random</button>
          <label class="button">{layout ? 'File or image' : 'File'} <input class="sr" type="file" onChange={(e) => void take(e.currentTarget.files?.[0])} /></label>
        </div>
        <div class="row start">
          {square > 0 && <Pad side={square} onData={(data) => put(data)} />}
          {layout && values.length >= layout.width * layout.height && values.length <= 1 << 20 && layout.channels === 1 && <Pixels values={values} layout={layout} />}
        </div>
        <label>{isText(spec.datatype) ? 'One element a line' : 'Values, row by row'}
          <textarea class="code" rows={square || isText(spec.datatype) ? 2 : 3} value={field.text} onInput={(e) => set({...field, text: e.currentTarget.value})} /></label>
        <span class="note">{values.length} of {elements(shape)} values{layout ? '; an image may be dropped here' : ''}</span>
        <Problem text={error} />
      </>}
    </fieldset>
  );
}

function Answer({output}: {output: Output}) {
  const per = output.shape.length > 1 ? elements(output.shape.slice(1)) : output.shape[0] ?? 1, first = output.data.slice(0, per);
  const numbers = first.every((v) => typeof v === 'number') ? (first as number[]) : undefined;
  const bars = numbers && per > 1 && per <= 100 && Math.min(...numbers) >= 0, top = bars ? Math.max(...numbers, 1e-12) : 1;
  const text = JSON.stringify(output.data);
  return (
    <div data-output={output.name}>
      <h3><code>{output.name}</code> <span class="note">{output.datatype} [{output.shape.join(', ')}]</span></h3>
      {bars ? <table class="bars"><caption class="sr">{output.name}, first row</caption><tbody>{numbers.map((v, i) =>
        <tr class={v === top ? 'best' : ''}><th scope="row" class="n">{i}</th><td><div class="share"><i style={{width: `${(100 * v) / top}%`}} class="st-compute" /></div></td><td class="n">{show(v)}</td></tr>)}</tbody></table>
        : <pre tabIndex={0}>{text.length > 20000 ? `${text.slice(0, 20000)} …` : text}</pre>}
    </div>
  );
}

export function TensorForm({model}: {model: string}) {
  const meta = useLoad<Metadata>((signal) => getJson(modelPath(model), signal), [model]);
  const config = useLoad<{input?: {name: string; optional?: boolean}[]}>((signal) => getJson(`${modelPath(model)}/config`, signal), [model]);
  const [fields, setFields] = useState<Field[]>([]), [reply, setReply] = useState<{took: number; value: Reply}>(), [error, setError] = useState(''), [busy, setBusy] = useState(false);
  useEffect(() => {
    if (!meta.value) return;
    const optional = new Set(config.value?.input?.filter((i) => i.optional).map((i) => i.name));
    const inputs = meta.value.inputs.length ? meta.value.inputs : [{name: 'x', datatype: 'FP32', shape: [4]}];  // identity takes anything
    setFields(inputs.map((spec) => ({spec: {...spec, optional: optional.has(spec.name)}, shape: closed(spec.shape), skipped: optional.has(spec.name),
      text: isText(spec.datatype) ? random({datatype: spec.datatype, shape: closed(spec.shape)}).join('\n') : random({datatype: spec.datatype, shape: closed(spec.shape)}).join(' ')})));
  }, [meta.value, config.value]);
  const sent = fields.filter((f) => !f.skipped);
  let body: {inputs: Output[]} = {inputs: []}, wrong = '';
  try {
    body = {inputs: sent.map((f) => ({name: f.spec.name, datatype: f.spec.datatype, shape: f.shape, data: parse(f.text, f.spec.datatype)}))};
  } catch (problem) { wrong = errorText(problem); }
  const kind = (d: string) => ({BOOL: 'bool_contents', INT8: 'int_contents', INT16: 'int_contents', INT32: 'int_contents', INT64: 'int64_contents', UINT8: 'uint_contents', UINT16: 'uint_contents', UINT32: 'uint_contents', UINT64: 'uint64_contents', FP32: 'fp32_contents', FP64: 'fp64_contents', BYTES: 'bytes_contents'} as Record<string, string>)[d];
  const base64 = (v: unknown) => btoa(String.fromCharCode(...new TextEncoder().encode(String(v))));
  const grpc = sent.every((f) => kind(f.spec.datatype)) ? {service: 'inference.GRPCInferenceService', method: 'ModelInfer', body: {model_name: model,
    inputs: body.inputs.map((i) => ({name: i.name, datatype: i.datatype, shape: i.shape, contents: {[kind(i.datatype)]: i.datatype === 'BYTES' ? i.data.map(base64) : i.data}}))}} : undefined;
  const run = async () => {
    setBusy(true), setError('');
    const began = performance.now();
    try {
      if (wrong) throw new Error(wrong);
      setReply({value: await postJson<Reply>(`${modelPath(model)}/infer`, body), took: (performance.now() - began) / 1000});
    } catch (problem) { setError(errorText(problem)), setReply(undefined); }
    setBusy(false);
  };
  return (
    <div class="grid two">
      <Card title="Inputs">
        <Problem text={meta.error} />
        <form onSubmit={(e) => { e.preventDefault(); void run(); }}>
          {fields.map((f, i) => <Input field={f} set={(next) => setFields(fields.map((old, k) => (k === i ? next : old)))} />)}
          <p class="row"><button class="primary" disabled={busy}>{busy ? 'Running…' : 'Run'}</button></p>
        </form>
      </Card>
      <Card title="Answer" more={reply && <span class="note">{show(reply.took, 's')} in this browser</span>}>
        <div role="status" aria-live="polite"><Problem text={error} />{!reply && !error && <p class="empty">Run it to see what the model says.</p>}
          {reply?.value.outputs.map((o) => <Answer output={o} />)}</div>
      </Card>
      <Card class="full"><Snippets request={{path: `${modelPath(model)}/infer`, body, grpc}} /></Card>
    </div>
  );
}
